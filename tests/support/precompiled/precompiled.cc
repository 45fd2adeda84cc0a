// Owns the precompiled headers that the test programs share: a program, so that they are compiled as theirs are.
int main() { return 0; }
