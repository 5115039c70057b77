/* Host memory for the GPU memory of parked jobs.

   This library is loaded before the allocator, which asks cudaMallocHost for host memory and copies with cudaMemcpy. cudaMallocHost
   takes 0.4 to 0.75 s for each GiB, because one thread makes its pages. Between rota_pages_begin() and rota_pages_end() this library
   takes both calls: the memory is huge pages that nobody has touched, and several threads copy through small pinned buffers, so the
   pages are made by many threads while the copy goes on. rota_pages_pin() registers the pages in a thread of its own afterwards, so
   that later copies need no buffers. Outside these calls the CUDA runtime does what it always does.

   rota_pages_prepare() makes pages while the job goes on, slowly, so that even the first copy finds them.

   Every byte is checked: a kernel sums the memory of each allocation on the GPU before it goes to the host and after it has come
   back, and rota_pages_end() returns how much of it differs. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define LEAST ((size_t)4 << 20) /* The CUDA runtime has the memory for smaller requests. */
#define LEAST_PIECE ((size_t)1 << 20)
#define PIECE ((size_t)8 << 20) /* Size of a pinned buffer. */
#define MOST_THREADS 16
#define SLICE ((size_t)32 << 20) /* Pages are prepared in slices, with a pause after each that is many times as long. */
#define REST 20
#define TO_DEVICE 1
#define TO_HOST 2
#define PORTABLE 1
#define NON_BLOCKING 1

typedef void *stream_t;

static int (*malloc_host)(void **, size_t);
static int (*free_host)(void *);
static int (*copy)(void *, const void *, size_t, int);
static int (*copy_async)(void *, const void *, size_t, int, stream_t);
static int (*host_register)(void *, size_t, unsigned);
static int (*host_unregister)(void *);
static int (*stream_create)(stream_t *, unsigned);
static int (*stream_synchronize)(stream_t);
static int (*stream_destroy)(stream_t);
static int (*get_device)(int *);
static int (*set_device)(int);
static int (*take_last_error)(void);

/* The CUDA runtime. */

static void *find(const char *name) {
    static const char *const runtimes[] = {"libcudart.so.13", "libcudart.so.12"};
    void *found = dlsym(RTLD_NEXT, name);
    for (unsigned i = 0; found == NULL && i < sizeof runtimes / sizeof *runtimes; i++) {
        void *runtime = dlopen(runtimes[i], RTLD_NOW | RTLD_NOLOAD);
        if (runtime != NULL) {
            found = dlsym(runtime, name);
            dlclose(runtime);
        }
    }
    return found;
}

static void find_all(void) {
    malloc_host = find("cudaMallocHost");
    free_host = find("cudaFreeHost");
    copy = find("cudaMemcpy");
    copy_async = find("cudaMemcpyAsync");
    host_register = find("cudaHostRegister");
    host_unregister = find("cudaHostUnregister");
    stream_create = find("cudaStreamCreateWithFlags");
    stream_synchronize = find("cudaStreamSynchronize");
    stream_destroy = find("cudaStreamDestroy");
    get_device = find("cudaGetDevice");
    set_device = find("cudaSetDevice");
    take_last_error = find("cudaGetLastError");
}

static int runtime_found(void) {
    if (malloc_host == NULL || free_host == NULL || copy == NULL)
        find_all();
    return malloc_host && free_host && copy && copy_async && host_register && host_unregister && stream_create &&
           stream_synchronize && stream_destroy && get_device && set_device && take_last_error;
}

/* Checksums of GPU memory, computed by the GPU. */

#define CHUNK_WORDS 131072 /* 1 MiB */
#define CHUNK_THREADS 256

static const char kernel[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry chunk_sums(.param .u64 data, .param .u64 words, .param .u64 sums) {\n"
    "  .reg .u64 %data, %words, %sums, %from, %at, %end, %value, %weight, %step, %total, %address;\n"
    "  .reg .u32 %chunk, %thread;\n"
    "  .reg .pred %over;\n"
    "  ld.param.u64 %data, [data];\n"
    "  ld.param.u64 %words, [words];\n"
    "  ld.param.u64 %sums, [sums];\n"
    "  cvta.to.global.u64 %data, %data;\n"
    "  cvta.to.global.u64 %sums, %sums;\n"
    "  mov.u32 %chunk, %ctaid.x;\n"
    "  mov.u32 %thread, %tid.x;\n"
    "  mul.wide.u32 %from, %chunk, 131072;\n"
    "  add.u64 %end, %from, 131072;\n"
    "  min.u64 %end, %end, %words;\n"
    "  cvt.u64.u32 %at, %thread;\n"
    "  shl.b64 %weight, %at, 1;\n"
    "  add.u64 %weight, %weight, 1;\n" /* Weights are odd, so a word that differs always changes the sum. */
    "  add.u64 %at, %at, %from;\n"
    "  shl.b64 %address, %at, 3;\n"
    "  add.u64 %address, %address, %data;\n"
    "  mov.u64 %total, 0;\n"
    "next:\n"
    "  setp.ge.u64 %over, %at, %end;\n"
    "  @%over bra done;\n"
    "  ld.global.u64 %value, [%address];\n"
    "  mad.lo.u64 %total, %value, %weight, %total;\n"
    "  add.u64 %at, %at, 256;\n"
    "  add.u64 %weight, %weight, 512;\n"
    "  add.u64 %address, %address, 2048;\n"
    "  bra next;\n"
    "done:\n"
    "  shl.b64 %step, %from, 3;\n"
    "  shr.u64 %step, %step, 17;\n" /* 8 bytes for each chunk of 1 MiB. */
    "  add.u64 %sums, %sums, %step;\n"
    "  red.global.add.u64 [%sums], %total;\n"
    "  ret;\n"
    "}\n";

static int (*load_module)(void **, const void *);
static int (*get_function)(void **, void *, const char *);
static int (*unload_module)(void *);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, stream_t, void **, void **);
static int (*allocate)(uint64_t *, size_t);
static int (*release)(uint64_t);
static int (*set_bytes)(uint64_t, unsigned char, size_t);
static int (*copy_to_host)(void *, uint64_t, size_t);

static void *module, *chunk_sums;

static int start_sums(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver == NULL)
        return 0;
    load_module = dlsym(driver, "cuModuleLoadData");
    get_function = dlsym(driver, "cuModuleGetFunction");
    unload_module = dlsym(driver, "cuModuleUnload");
    launch = dlsym(driver, "cuLaunchKernel");
    allocate = dlsym(driver, "cuMemAlloc_v2");
    release = dlsym(driver, "cuMemFree_v2");
    set_bytes = dlsym(driver, "cuMemsetD8_v2");
    copy_to_host = dlsym(driver, "cuMemcpyDtoH_v2");
    dlclose(driver);
    if (!load_module || !get_function || !unload_module || !launch || !allocate || !release || !set_bytes || !copy_to_host)
        return 0;
    if (load_module(&module, kernel))
        return 0;
    if (get_function(&chunk_sums, module, "chunk_sums")) {
        unload_module(module);
        return 0;
    }
    return 1;
}

static size_t chunks_of(size_t size) { return (size + 8 * CHUNK_WORDS - 1) / (8 * CHUNK_WORDS); }

static uint64_t *sums_of(const void *device, size_t size) {
    /* Return the sums of an allocation, one for each MiB; NULL if they cannot be computed. The caller frees them. */
    size_t chunks = chunks_of(size);
    uint64_t data = (uint64_t)(uintptr_t)device, words = size / 8, found = 0, *sums = NULL;
    void *arguments[] = {&data, &words, &found};
    if (chunk_sums == NULL || size % 8 || allocate(&found, 8 * chunks))
        return NULL;
    sums = malloc(8 * chunks);
    if (sums == NULL || set_bytes(found, 0, 8 * chunks) ||
        launch(chunk_sums, (unsigned)chunks, 1, 1, CHUNK_THREADS, 1, 1, 0, NULL, arguments, NULL) ||
        copy_to_host(sums, found, 8 * chunks)) {
        free(sums);
        sums = NULL;
    }
    release(found);
    return sums;
}

/* Blocks of host memory. */

struct block {
    char *data;
    size_t size, mapped;
    int registered;
    const void *device;
    uint64_t *sums; /* Of the GPU memory that is in the block; NULL if they are not known. */
    struct block *next;
};

static size_t damaged, unchecked;
/* MiB whose sums differ, and allocations that could not be checked, since rota_pages_begin(). */

static struct block *blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int active;

static void *map_pages(size_t size) {
    /* Aligned, because only an aligned stretch of 2 MiB can be a huge page. */
    char *base = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    char *data = (char *)(((uintptr_t)base + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    if (data > base)
        munmap(base, (size_t)(data - base));
    munmap(data + size, (size_t)(base + HUGE_PAGE - data));
    madvise(data, size, MADV_HUGEPAGE);
    return data;
}

/* Pages that are made while the job goes on. */

static struct {
    char *data; /* From here on nothing is given away; NULL if there is none. */
    size_t size;
    atomic_size_t touched; /* Bytes from the beginning that were made. */
    atomic_int stopped;
    pthread_t thread;
    int started;
} reserve;

static void *touch_pages(void *argument) {
    (void)argument;
    for (size_t at = 0; at < reserve.size && !atomic_load(&reserve.stopped); at += SLICE) {
        struct timespec began, ended;
        size_t end = reserve.size - at < SLICE ? reserve.size : at + SLICE;
        clock_gettime(CLOCK_MONOTONIC, &began);
        for (size_t page = at; page < end; page += 4096)
            *(volatile char *)(reserve.data + page) = 0;
        clock_gettime(CLOCK_MONOTONIC, &ended);
        atomic_store(&reserve.touched, end);
        long long took = (ended.tv_sec - began.tv_sec) * 1000000000LL + ended.tv_nsec - began.tv_nsec;
        for (long long left = took * REST; left > 0 && !atomic_load(&reserve.stopped); left -= 1000000) {
            struct timespec millisecond = {0, 1000000};
            nanosleep(&millisecond, NULL);
        }
    }
    return NULL;
}

static void stop_touching(void) {
    if (!reserve.started)
        return;
    atomic_store(&reserve.stopped, 1);
    pthread_join(reserve.thread, NULL);
    reserve.started = 0;
}

static char *take_reserve(size_t size) {
    if (reserve.data == NULL || size > reserve.size)
        return NULL;
    char *data = reserve.data;
    reserve.data += size;
    reserve.size -= size;
    return data;
}

static void drop_reserve(void) {
    stop_touching();
    if (reserve.data != NULL && reserve.size > 0)
        munmap(reserve.data, reserve.size);
    reserve.data = NULL;
    reserve.size = 0;
    atomic_store(&reserve.touched, 0);
}

static struct block *block_at(const void *address) {
    for (struct block *each = blocks; each != NULL; each = each->next)
        if ((const char *)address >= each->data && (const char *)address < each->data + each->size)
            return each;
    return NULL;
}

/* Copies by several threads. */

struct piecewise {
    char *host, *device;
    size_t size, piece;
    int kind;
    atomic_size_t next;
    atomic_int error;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t threads[MOST_THREADS];
    stream_t streams[MOST_THREADS];
    char *buffers;
    int count, left, stopping, failed, device;
    unsigned long round;
    struct piecewise *job;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static void copy_pieces(struct piecewise *job, char *buffer, stream_t stream) {
    for (;;) {
        size_t from = atomic_fetch_add(&job->next, job->piece);
        if (from >= job->size || atomic_load(&job->error))
            return;
        size_t size = job->size - from < job->piece ? job->size - from : job->piece;
        int error;
        if (job->kind == TO_HOST) {
            error = copy_async(buffer, job->device + from, size, TO_HOST, stream);
            error = error ? error : stream_synchronize(stream);
            if (!error)
                memcpy(job->host + from, buffer, size);
        } else {
            memcpy(buffer, job->host + from, size);
            error = copy_async(job->device + from, buffer, size, TO_DEVICE, stream);
            error = error ? error : stream_synchronize(stream);
        }
        if (error)
            atomic_store(&job->error, error);
    }
}

static void *work(void *argument) {
    size_t number = (size_t)argument;
    unsigned long seen = 0;
    set_device(pool.device);
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.stopping && pool.round == seen)
            pthread_cond_wait(&pool.work, &pool.lock);
        if (pool.stopping)
            break;
        seen = pool.round;
        struct piecewise *job = pool.job;
        pthread_mutex_unlock(&pool.lock);
        copy_pieces(job, pool.buffers + number * PIECE, pool.streams[number]);
        pthread_mutex_lock(&pool.lock);
        if (--pool.left == 0)
            pthread_cond_signal(&pool.done);
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

static int start_thread(pthread_t *thread, void *(*body)(void *), void *argument) {
    /* Signals are for the threads of the job. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int start_pool(void) {
    cpu_set_t usable;
    int wanted = sched_getaffinity(0, sizeof usable, &usable) ? 4 : CPU_COUNT(&usable);
    wanted = wanted < MOST_THREADS ? wanted : MOST_THREADS;
    pool.buffers = map_pages(MOST_THREADS * PIECE);
    if (pool.buffers == NULL)
        return 0;
    if (get_device(&pool.device) || host_register(pool.buffers, (size_t)wanted * PIECE, PORTABLE)) {
        take_last_error(); /* Or PyTorch would find it and blame the job. */
        munmap(pool.buffers, MOST_THREADS * PIECE);
        return 0;
    }
    pool.stopping = pool.left = 0;
    pool.round = 0;
    while (pool.count < wanted) {
        if (stream_create(&pool.streams[pool.count], NON_BLOCKING)) {
            take_last_error();
            break;
        }
        if (start_thread(&pool.threads[pool.count], work, (void *)(size_t)pool.count)) {
            stream_destroy(pool.streams[pool.count]);
            break;
        }
        pool.count++;
    }
    if (pool.count == 0) {
        host_unregister(pool.buffers);
        munmap(pool.buffers, MOST_THREADS * PIECE);
    }
    return pool.count;
}

static void stop_pool(void) {
    if (pool.count == 0)
        return;
    pthread_mutex_lock(&pool.lock);
    pool.stopping = 1;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < pool.count; i++) {
        pthread_join(pool.threads[i], NULL);
        stream_destroy(pool.streams[i]);
    }
    host_unregister(pool.buffers);
    munmap(pool.buffers, MOST_THREADS * PIECE);
    pool.count = 0;
}

static int copy_by_pool(char *host, char *device, size_t size, int kind) {
    struct piecewise job = {.host = host, .device = device, .size = size, .kind = kind};
    job.piece = size / (size_t)pool.count & ~(LEAST_PIECE - 1);
    job.piece = job.piece < LEAST_PIECE ? LEAST_PIECE : job.piece > PIECE ? PIECE : job.piece;
    pthread_mutex_lock(&pool.lock);
    pool.job = &job;
    pool.left = pool.count;
    pool.round++;
    pthread_cond_broadcast(&pool.work);
    while (pool.left > 0)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    return atomic_load(&job.error);
}

/* Registration after a copy. */

static pthread_t pinning;
static int pinning_started;
static atomic_int pinning_stopped;

static void *pin_blocks(void *argument) {
    set_device((int)(size_t)argument);
    pthread_mutex_lock(&blocks_lock);
    for (struct block *each = blocks; each != NULL && !atomic_load(&pinning_stopped); each = each->next)
        if (!each->registered)
            each->registered = host_register(each->data, each->size, PORTABLE) == 0 ? 1 : -1;
    pthread_mutex_unlock(&blocks_lock);
    return NULL;
}

static void stop_pinning(void) {
    if (!pinning_started)
        return;
    atomic_store(&pinning_stopped, 1);
    pthread_join(pinning, NULL);
    pinning_started = 0;
}

/* What the hook calls, from one thread. */

int rota_pages_begin(void) {
    /* Take the allocator's calls from now on. Return whether that is possible. */
    stop_pinning();
    stop_touching();
    if (!runtime_found())
        return 0;
    damaged = unchecked = 0;
    pool.failed = 0;
    if (chunk_sums == NULL)
        start_sums();
    atomic_store(&active, 1);
    return 1;
}

long rota_pages_end(void) {
    /* Return how many MiB came back different, or -1 if some memory could not be checked. */
    atomic_store(&active, 0);
    stop_pool();
    return damaged ? (long)damaged : unchecked ? -1 : 0;
}

void rota_pages_pin(void) {
    /* Register the pages in the background. rota_pages_begin() ends that early; blocks that are not registered are copied by threads. */
    int device;
    drop_reserve();
    stop_pinning();
    atomic_store(&pinning_stopped, 0);
    if (runtime_found() && get_device(&device) == 0)
        pinning_started = start_thread(&pinning, pin_blocks, (void *)(size_t)device) == 0;
}

int rota_pages_prepare(size_t size) {
    /* Begin to make so many bytes of pages. Return whether they are being made. */
    drop_reserve();
    size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    if (size == 0 || (reserve.data = map_pages(size)) == NULL)
        return 0;
    reserve.size = size;
    atomic_store(&reserve.stopped, 0);
    reserve.started = start_thread(&reserve.thread, touch_pages, NULL) == 0;
    return reserve.started;
}

size_t rota_pages_prepared(void) {
    /* Return how many bytes were made. */
    return atomic_load(&reserve.touched);
}

void rota_pages_wait(void) {
    /* Wait until the pages are registered. */
    if (pinning_started) {
        pthread_join(pinning, NULL);
        pinning_started = 0;
    }
}

/* What the allocator calls. */

int cudaMallocHost(void **found, size_t size) {
    if (malloc_host == NULL && !runtime_found() && malloc_host == NULL)
        return 3; /* cudaErrorInitializationError */
    if (!atomic_load_explicit(&active, memory_order_relaxed))
        return malloc_host(found, size);
    struct block *made = calloc(1, sizeof *made);
    if (made == NULL)
        return malloc_host(found, size);
    made->size = size;
    made->mapped = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    made->data = size < LEAST ? NULL : take_reserve(made->mapped);
    if (size >= LEAST && made->data == NULL)
        made->data = map_pages(made->mapped);
    if (made->data == NULL) { /* Its pages are the runtime's. */
        int error = malloc_host((void **)&made->data, size);
        if (error) {
            free(made);
            return error;
        }
        made->mapped = 0;
        made->registered = 1;
    }
    *found = made->data;
    pthread_mutex_lock(&blocks_lock);
    made->next = blocks;
    blocks = made;
    pthread_mutex_unlock(&blocks_lock);
    return 0;
}

int cudaFreeHost(void *address) {
    if (free_host == NULL && !runtime_found() && free_host == NULL)
        return 3;
    pthread_mutex_lock(&blocks_lock);
    struct block **at = &blocks;
    while (*at != NULL && (*at)->data != address)
        at = &(*at)->next;
    struct block *found = *at;
    if (found != NULL)
        *at = found->next;
    pthread_mutex_unlock(&blocks_lock);
    if (found == NULL)
        return free_host(address);
    int error = 0;
    if (found->mapped == 0)
        error = free_host(address);
    else {
        error = found->registered == 1 ? host_unregister(found->data) : 0;
        munmap(found->data, found->mapped);
    }
    free(found->sums);
    free(found);
    return error;
}

static int copy_block(struct block *block, char *device, size_t size, int kind) {
    if (pool.count == 0 && block->registered != 1 && !pool.failed)
        pool.failed = start_pool() == 0;
    if (block->registered == 1 || pool.count == 0)
        return kind == TO_HOST ? copy(block->data, device, size, kind) : copy(device, block->data, size, kind);
    return copy_by_pool(block->data, device, size, kind);
}

static int park_block(struct block *block, const void *device, size_t size) {
    free(block->sums);
    block->device = device;
    block->sums = sums_of(device, size);
    return copy_block(block, (char *)device, size, TO_HOST);
}

static int resume_block(struct block *block, void *device, size_t size) {
    int error = copy_block(block, device, size, TO_DEVICE);
    if (error)
        return error;
    uint64_t *sums = block->sums != NULL && block->device == device ? sums_of(device, size) : NULL;
    if (sums == NULL)
        unchecked++;
    else
        for (size_t i = 0; i < chunks_of(size); i++)
            damaged += sums[i] != block->sums[i];
    free(sums);
    return 0;
}

int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
    if (copy == NULL && !runtime_found() && copy == NULL)
        return 3;
    if (!atomic_load_explicit(&active, memory_order_relaxed) || (kind != TO_HOST && kind != TO_DEVICE))
        return copy(to, from, size, kind);
    const void *host = kind == TO_HOST ? to : from;
    pthread_mutex_lock(&blocks_lock);
    struct block *found = block_at(host);
    pthread_mutex_unlock(&blocks_lock);
    if (found == NULL || found->data != host || found->size != size)
        return copy(to, from, size, kind);
    return kind == TO_HOST ? park_block(found, from, size) : resume_block(found, to, size);
}
