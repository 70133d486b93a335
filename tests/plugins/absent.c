int kvplane_test_absent(void);
__attribute__((visibility("default"))) int kvplane_test_absent(void) { return 0; }
