/* A program outside the tree: it has only what was installed. */
#include <detent/detent.h>
#include <stdio.h>

int main(void)
{
    dt_ctx *ctx = NULL;
    dt_tensor *x = NULL;
    const int64_t dims[] = { 2, 3 };
    dt_status status = dt_ctx_create(&ctx, NULL);
    if (status == DT_OK) status = dt_tensor_create(ctx, DT_F32, 2, dims, &x);
    if (status == DT_OK) status = dt_fill(x, 2.5);
    const float *data = status == DT_OK ? dt_data(x) : NULL;
    const int right = data != NULL && data[5] == 2.5f;
    printf("detent %s: %s\n", dt_version(), right ? "works" : "does not work");
    dt_tensor_free(x);
    dt_ctx_free(ctx);
    return right ? 0 : 1;
}
