/* Whether this process may multiply tiles (AMX): Linux gives them their memory only to who asks. */

#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

#define ASK_FOR_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_DATA 18 /* XFEATURE_XTILEDATA */

int may_use_tiles(void) { return syscall(SYS_arch_prctl, ASK_FOR_PERMISSION, TILE_DATA) == 0; }
#else
int may_use_tiles(void) { return 0; }
#endif
