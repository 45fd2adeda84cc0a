// The variable by which the C library tells programs that they have one thread only. Archives that were compiled for programs cannot
// refer to it across libraries; here it says, always, that there may be more threads, and nothing is lost but a shortcut.
extern "C" {
extern char __libc_single_threaded __attribute__((visibility("hidden")));
char __libc_single_threaded = 0;
}
