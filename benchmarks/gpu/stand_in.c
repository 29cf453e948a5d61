/* Stands in for CUDA's driver, libcuda.so.1, where there is no device: memory is the host's, copies
 * are made, and launches are counted and do nothing. The real numba-cuda opens it, compiles, links,
 * loads and launches, so that all host code runs.
 *
 * STAND_IN_DRIVER  version, 13000 by default
 * STAND_IN_MEMORY  bytes that are free at first
 * STAND_IN_FAULT   number of the launch that breaks the device, from 1; all later calls fail
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long address;
enum { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2, ILLEGAL_ADDRESS = 700, NOT_SUPPORTED = 801 };
enum { LAUNCHES, TO_DEVICE, TO_HOST, ALLOCATIONS, FREED, LOADED, N_COUNTS };

static long counts[N_COUNTS];
static int is_broken, context[4];
static long long taken;
static __thread void *current;

static long long setting(const char *name, long long otherwise) {
    const char *value = getenv(name);
    return value ? atoll(value) : otherwise;
}

static long long memory(void) { return setting("STAND_IN_MEMORY", 140000000000ll); }

static int state(void) { return is_broken ? ILLEGAL_ADDRESS : SUCCESS; }

void stand_in_counts(long *out) { memcpy(out, counts, sizeof counts); }

/* -- the device: an H200's limits ------------------------------------------------------------ */
int cuInit(unsigned flags) { return SUCCESS; }
int cuDriverGetVersion(int *v) { *v = setting("STAND_IN_DRIVER", 13000); return SUCCESS; }
int cuDeviceGetCount(int *n) { *n = 1; return SUCCESS; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return SUCCESS; }
int cuDeviceGetName(char *name, int n, int d) { strncpy(name, "stand-in", n); return SUCCESS; }
int cuDeviceGetUuid_v2(void *uuid, int device) { memset(uuid, 7, 16); return SUCCESS; }
int cuDeviceTotalMem_v2(size_t *n, int device) { *n = memory(); return SUCCESS; }

static const int limits[][2] = {  /* CUdevice_attribute, value */
    {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152},
    {10, 32}, {12, 65536}, {16, 132}, {19, 1}, {38, 52428800}, {39, 2048}, {41, 1}, {75, 9},
    {76, 0}, {81, 233472}, {82, 65536}, {83, 1}, {95, 1}, {97, 232448}, {106, 32}, {111, 1024},
    {115, 1},
};
enum { MOST_SHARED = 232448, SHARED_OF_KERNEL = 8, SHARED = 233472, RESERVED = 1024 };

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = 0;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i][0] == attribute) *value = limits[i][1];
    return SUCCESS;
}

/* -- contexts, streams and events: one of each is enough -------------------------------------- */
int cuDevicePrimaryCtxRetain(void **out, int device) { *out = context; return SUCCESS; }
int cuDevicePrimaryCtxRelease_v2(int device) { return SUCCESS; }
int cuDevicePrimaryCtxReset_v2(int device) { return SUCCESS; }
int cuDevicePrimaryCtxGetState(int d, unsigned *f, int *on) { *f = 0; *on = 1; return SUCCESS; }
int cuCtxPushCurrent_v2(void *c) { current = c; return SUCCESS; }
int cuCtxPopCurrent_v2(void **c) { *c = current; return SUCCESS; }
int cuCtxSetCurrent(void *c) { current = c; return SUCCESS; }
int cuCtxGetCurrent(void **c) { *c = current; return SUCCESS; }
int cuCtxGetDevice(int *device) { *device = 0; return SUCCESS; }
int cuCtxGetDevice_v2(int *device, void *c) { *device = 0; return SUCCESS; }
int cuCtxGetApiVersion(void *c, unsigned *v) { *v = 13000; return SUCCESS; }
int cuCtxSynchronize(void) { return state(); }
int cuStreamSynchronize(void *stream) { return state(); }
int cuEventCreate(void **event, unsigned flags) {
    *event = calloc(1, sizeof(struct timespec));
    return SUCCESS;
}
int cuEventRecord(void *event, void *s) { return clock_gettime(CLOCK_MONOTONIC, event); }
int cuEventSynchronize(void *event) { return state(); }
int cuEventQuery(void *event) { return state(); }
int cuEventDestroy_v2(void *event) { free(event); return SUCCESS; }
int cuEventElapsedTime_v2(float *ms, struct timespec *a, struct timespec *b) {
    *ms = 1e3 * (b->tv_sec - a->tv_sec) + 1e-6 * (b->tv_nsec - a->tv_nsec);
    return SUCCESS;
}

/* -- memory: a size before each block --------------------------------------------------------- */
enum { HEAD = 256 };

int cuMemGetInfo_v2(size_t *left, size_t *n) {
    *n = memory();
    *left = memory() - taken;
    return state();
}
int cuMemAlloc_v2(address *out, size_t n) {
    char *block = NULL;
    if (is_broken) return ILLEGAL_ADDRESS;
    if (taken + (long long)n > memory() || posix_memalign((void **)&block, HEAD, n + HEAD))
        return OUT_OF_MEMORY;
    memset(block, 0xA5, n + HEAD);
    *(size_t *)block = n;
    taken += n;
    counts[ALLOCATIONS]++;
    *out = (address)(block + HEAD);
    return SUCCESS;
}
int cuMemFree_v2(address at) {
    char *block = (char *)at - HEAD;
    taken -= *(size_t *)block;
    counts[FREED]++;
    free(block);
    return state();
}
int cuMemHostAlloc(void **p, size_t n, unsigned f) { return posix_memalign(p, 4096, n) ? OUT_OF_MEMORY : 0; }
int cuMemFreeHost(void *p) { free(p); return SUCCESS; }
int cuMemHostGetDevicePointer_v2(address *d, void *p, unsigned f) { *d = (address)p; return SUCCESS; }

static int copy(int what, void *target, const void *source, size_t n) {
    if (is_broken) return ILLEGAL_ADDRESS;
    counts[what]++;
    memcpy(target, source, n);
    return SUCCESS;
}
int cuMemcpyHtoD_v2(address to, const void *from, size_t n) { return copy(TO_DEVICE, (void *)to, from, n); }
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t n, void *stream) {
    return copy(TO_DEVICE, (void *)to, from, n);
}
int cuMemcpyDtoH_v2(void *to, address from, size_t n) { return copy(TO_HOST, to, (void *)from, n); }
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t n, void *stream) {
    return copy(TO_HOST, to, (void *)from, n);
}
int cuMemsetD8_v2(address at, unsigned char value, size_t n) {
    if (!is_broken) memset((void *)at, value, n);
    return state();
}
int cuPointerGetAttribute(void *out, int attribute, address p) { memset(out, 0, 4); return SUCCESS; }

/* -- code: a kernel is its name ---------------------------------------------------------------- */
int cuLibraryLoadData(void **out, const void *code, void *a, void *b, unsigned c, void *d, void *e,
                      unsigned f) {
    counts[LOADED]++;
    *out = malloc(1);
    return state();
}
int cuLibraryUnload(void *library) { free(library); return SUCCESS; }
int cuLibraryGetKernel(void **out, void *library, const char *name) { *out = strdup(name); return SUCCESS; }
int cuLibraryGetModule(void **out, void *library) { *out = library; return SUCCESS; }
int cuKernelGetFunction(void **out, void *kernel) { *out = kernel; return SUCCESS; }
int cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {
    return attribute == SHARED_OF_KERNEL && value > MOST_SHARED ? INVALID : SUCCESS;
}
int cuKernelGetAttribute(int *out, int attribute, void *kernel, int device) {
    *out = attribute == 4 ? 64 : 0; /* registers */
    return SUCCESS;
}
int cuFuncGetAttribute(int *out, int attribute, void *kernel) {
    return cuKernelGetAttribute(out, attribute, kernel, 0);
}
int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, void *kernel, int threads,
                                                         size_t shared, unsigned flags) {
    int by_threads = 65536 / (64 * threads), by_shared = SHARED / (shared + RESERVED);
    *n = by_threads < by_shared ? by_threads : by_shared;
    return SUCCESS;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *kernel, int threads, size_t shared) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, kernel, threads, shared, 0);
}

static int launch(unsigned blocks, unsigned threads, unsigned shared) {
    if (is_broken) return ILLEGAL_ADDRESS;
    if (!blocks || !threads || threads > 1024 || shared > MOST_SHARED) return INVALID;
    is_broken = ++counts[LAUNCHES] == setting("STAND_IN_FAULT", 0);
    return SUCCESS; /* a fault is told by a later call */
}
int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    return launch(x, bx, shared);
}
int cuLaunchCooperativeKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, void *stream, void **arguments) {
    return launch(x, bx, shared);
}

/* -- which functions there are ------------------------------------------------------------------ */
int cuGetErrorName(int error, const char **out) {
    *out = error == OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
           : error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                      : "CUDA_ERROR_OF_THE_STAND_IN";
    return SUCCESS;
}
int cuGetErrorString(int error, const char **out) { return cuGetErrorName(error, out); }
static int not_supported(void) { return NOT_SUPPORTED; }

int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *found) {
    static void *own;
    char latest[256];
    Dl_info info;
    if (!own && dladdr((void *)cuInit, &info)) own = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    snprintf(latest, sizeof latest, "%s_v2", name);
    *out = dlsym(own, latest);
    if (!*out) *out = dlsym(own, name);
    if (!*out) *out = (void *)not_supported;
    if (found) *found = 0;
    return SUCCESS;
}
