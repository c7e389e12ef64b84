# jemalloc, built privately for the pinned host pool (see allocator/README.md).
