/* The CUDA runtime, the driver and the allocator for tests of host memory, on a machine without a GPU: GPU memory is ordinary
   memory. It counts the calls, so that tests see which way memory took. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int pinned, registered, refused;

int cudaMallocHost(void **found, size_t size) { pinned++; return (*found = malloc(size)) == NULL; }
int cudaFreeHost(void *address) { free(address); return 0; }
int cudaMemcpy(void *to, const void *from, size_t size, int kind) { (void)kind; memcpy(to, from, size); return 0; }
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) { (void)stream; return cudaMemcpy(to, from, size, kind); }
int cudaHostRegister(void *address, size_t size, unsigned flags) {
    (void)address, (void)flags;
    if (getenv("REFUSE_TO_REGISTER") && size % ((size_t)8 << 20)) /* not the buffers of the threads */
        return refused++, 2;
    registered++;
    return 0;
}
int cudaHostUnregister(void *address) { (void)address; registered--; return 0; }
int cudaStreamCreateWithFlags(void **stream, unsigned flags) { (void)flags; *stream = NULL; return 0; }
int cudaStreamSynchronize(void *stream) { (void)stream; return 0; }
int cudaStreamDestroy(void *stream) { (void)stream; return 0; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaSetDevice(int device) { (void)device; return 0; }
int cudaGetLastError(void) { return 0; }

/* The driver. Its kernel is the one of the library: one sum for each MiB, with odd weights. */
int cuModuleLoadData(void **module, const void *text) { (void)text; *module = module; return 0; }
int cuModuleUnload(void *module) { (void)module; return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = module; return strcmp(name, "chunk_sums"); }
int cuMemAlloc_v2(uint64_t *found, size_t size) { *found = (uint64_t)(uintptr_t)malloc(size); return 0; }
int cuMemFree_v2(uint64_t address) { free((void *)(uintptr_t)address); return 0; }
int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t size) { memset((void *)(uintptr_t)address, value, size); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)(uintptr_t)from, size); return 0; }
int cuLaunchKernel(void *function, unsigned chunks, unsigned y, unsigned z, unsigned threads, unsigned b, unsigned c,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    (void)function, (void)y, (void)z, (void)threads, (void)b, (void)c, (void)shared, (void)stream, (void)extra;
    uint64_t *data = *(uint64_t **)arguments[0], words = *(uint64_t *)arguments[1], *sums = *(uint64_t **)arguments[2];
    for (uint64_t at = 0; at < words && at < (uint64_t)chunks * 131072; at++)
        sums[at / 131072] += data[at] * (2 * (at % 131072) + 1);
    return 0;
}

/* The allocator, with GPU memory of these sizes. */
#define COUNT 4
static const size_t sizes[COUNT] = {(size_t)2 << 20, (size_t)9 << 20, ((size_t)40 << 20) + 512, (size_t)4 << 20};
static char *gpu[COUNT], *host[COUNT];

static unsigned char pattern(int number, size_t at) { return (unsigned char)((at * 2654435761u >> 13) + (unsigned)number); }

static void start(void) {
    for (int i = 0; i < COUNT; i++)
        if (gpu[i] == NULL) {
            gpu[i] = malloc(sizes[i]);
            for (size_t at = 0; at < sizes[i]; at++)
                gpu[i][at] = (char)pattern(i, at);
        }
}

void tms_pause(const char *tag) {
    (void)tag;
    start();
    for (int i = 0; i < COUNT; i++) {
        if (host[i] == NULL && cudaMallocHost((void **)&host[i], sizes[i]))
            abort();
        if (cudaMemcpy(host[i], gpu[i], sizes[i], 2))
            abort();
        memset(gpu[i], 0, sizes[i]);
    }
    printf("pause %d pinned, %d registered\n", pinned, registered);
    fflush(stdout);
}

void tms_resume(const char *tag) {
    (void)tag;
    const char *flip = getenv("FLIP");
    if (flip != NULL)
        host[2][atol(flip)] ^= 1;
    int same = 1;
    for (int i = 0; i < COUNT; i++) {
        if (cudaMemcpy(gpu[i], host[i], sizes[i], 1))
            abort();
        for (size_t at = 0; at < sizes[i]; at++)
            same = same && gpu[i][at] == (char)pattern(i, at);
    }
    printf("resume %s, %d registered, %d refused\n", same ? "same" : "other", registered, refused);
    fflush(stdout);
}

void tms_free(void) {
    for (int i = 0; i < COUNT; i++) {
        cudaFreeHost(host[i]);
        host[i] = NULL;
    }
    printf("free %d registered\n", registered);
    fflush(stdout);
}
