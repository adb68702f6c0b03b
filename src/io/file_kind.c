/* Recognizes files of a wrong kind by their first bytes, so that messages can say what a file
 * is. */
#include "io/file_kind.h"

#include "core/system/open_file.h"

#include <string.h>

static const struct {
    const char *begin;
    size_t bytes;
    const char *looks;
} kinds[] = {
    { DT__LFS_POINTER, sizeof DT__LFS_POINTER - 1,
      "a pointer of Git LFS; git lfs pull fetches it" },
    { "PK\x03\x04", 4, "a .pt file of PyTorch, a .npz file of NumPy, or another zip archive" },
    { "\x80\x02", 2, "a pickle, as PyTorch wrote them before 1.6" },
    { "GGUF", 4, "a GGUF file" },
    { "\x89HDF", 4, "an HDF5 file, as Keras writes them" },
    { "\x89PNG", 4, "a PNG image" },
    { "\x93NUMPY", 6, "a .npy file of NumPy" },
    { "\x1f\x8b", 2, "a gzip file" },
    { "\xff\xd8\xff", 3, "a JPEG image" },
    { "RIFF", 4, "a .wav recording" },
    { "fLaC", 4, "a .flac recording" },
    { "OggS", 4, "an .ogg recording" },
    { "SQLite format 3", 15, "a database of SQLite" },
    { "PAR1", 4, "a Parquet file" },
    { "GIF8", 4, "a GIF image" },
    { "%PDF", 4, "a PDF document" },
    { "\x7f"
      "ELF",
      4, "a program, or compiled code" },
    { "<!doctype html", 14, "a page of HTML, as detent report writes them" },
};

static bool is_text(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = bytes[i];
        if (c == 0x7F || (c < 0x20 && c != '\t' && c != '\n' && c != '\r')) return false;
    }
    return n > 0;
}

/* The header's length, little-endian, then the header. */
static bool is_safetensors(const unsigned char *bytes, size_t n)
{
    return n > 9 && bytes[4] == 0 && bytes[5] == 0 && bytes[6] == 0 && bytes[7] == 0 &&
           bytes[8] == '{';
}

/* A protobuf message whose first fields are ir_version and producer_name. */
static bool is_onnx(const unsigned char *bytes, size_t n)
{
    return n > 4 && bytes[0] == 0x08 && bytes[1] < 32 && bytes[2] == 0x12 && bytes[3] < n;
}

const char *dt__file_kind_of(const void *begin, size_t n)
{
    const unsigned char *bytes = begin;
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) {
        if (n < kinds[i].bytes || memcmp(bytes, kinds[i].begin, kinds[i].bytes) != 0) continue;
        return kinds[i].looks;
    }
    if (n > 8 && memcmp(bytes + 4, "TFL3", 4) == 0) return "a TFLite file";
    if (is_onnx(bytes, n)) return "an ONNX file";
    if (is_safetensors(bytes, n)) return "a safetensors file: a model, or tensors";
    if (!is_text(bytes, n < 64 ? n : 64)) return NULL;
    return bytes[0] == '{' ? "JSON" : "text, a recipe or a table perhaps";
}
