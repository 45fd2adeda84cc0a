// The static program loads nothing at run time. SQLite refers to the loader for extensions, which nest never asks for; linked with
// --wrap these take its place, because the real one would need the shared libraries of the machine that linked the program.
extern "C" {

void* __wrap_dlopen(const char*, int);
void* __wrap_dlsym(void*, const char*);
int __wrap_dlclose(void*);
char* __wrap_dlerror();

void* __wrap_dlopen(const char*, int) { return nullptr; }
void* __wrap_dlsym(void*, const char*) { return nullptr; }
int __wrap_dlclose(void*) { return 0; }
char* __wrap_dlerror() {
  static char message[] = "this program is static";
  return message;
}

}  // extern "C"
