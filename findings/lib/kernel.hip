// A translation unit with one kernel, named by the macro KERNEL; it needs no header of ROCm.
typedef __SIZE_TYPE__ size_t;
typedef int hipError_t;
typedef struct hipStream *hipStream_t;
struct dim3 {
    unsigned x, y, z;
};
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);
extern "C" __attribute__((global)) void KERNEL(int *p) { *p = 1; }
