# A Cortex-M4 with single-precision floats, as in an STM32F4 (Debian: gcc-arm-none-eabi,
# libnewlib-arm-none-eabi). For another processor change the line `processor`:
#   Cortex-M0   -mcpu=cortex-m0
#   Cortex-M7   -mcpu=cortex-m7 -mfpu=fpv5-d16 -mfloat-abi=hard
#   Cortex-M33  -mcpu=cortex-m33 -mfpu=fpv5-sp-d16 -mfloat-abi=hard
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # a program needs our linker script

set(processor "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard -mthumb")
set(CMAKE_C_FLAGS_INIT "${processor} -ffunction-sections -fdata-sections")
set(CMAKE_EXE_LINKER_FLAGS_INIT "${processor} -nostartfiles --specs=nano.specs -Wl,--gc-sections")
