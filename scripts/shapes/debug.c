// A fat library with debug information of the kind that dwz can read: clang's default is too new for dwz 0.15. Two of
// these have the same types, so that dwz has something to do. UNIT 0 holds the device code of another library.
#include <stdio.h>
#include <stdlib.h>

struct shared {
    struct shared *next;
    div_t division;
    FILE *file;
    char name[100];
};

#if UNIT == 0
__asm__(".section .hip_fatbin,\"a\",@progbits\n\t.p2align 12\nfatbin:\n\t.incbin \"" FATBIN "\"\n\t.previous");
extern const char fatbin[] __attribute__((visibility("hidden")));

struct wrapper {
    unsigned magic, version;
    const char *binary;
    void *unused;
};

static const struct wrapper wrapper __attribute__((section(".hipFatBinSegment"), used)) = {0x48495046, 1, fatbin, 0};

void **__hipRegisterFatBinary(const void *);

__attribute__((constructor)) static void start(void) { __hipRegisterFatBinary(&wrapper); }

struct shared *first(struct shared *it) { return it->next; }
#else
struct shared *second(struct shared *it) { return it->next->next; }
#endif
