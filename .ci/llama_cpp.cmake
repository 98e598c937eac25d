# What the tests need of llama.cpp, compiled in a third of the time: without its programs' common library (chat templates,
# an HTTP client) and without images, and optimized so little that only the hand-written kernels are fast. CMake reads this
# before its own project (CMAKE_PROJECT_TOP_LEVEL_INCLUDES); llama-cpp-python forces the cache variable
# LLAMA_BUILD_COMMON to ON, behind which this one stands (policy CMP0126).
set(LLAMA_BUILD_COMMON OFF)
set(LLAVA_BUILD OFF)
set(LLAMA_ALL_WARNINGS OFF)
set(CMAKE_C_FLAGS_RELEASE -O1)
set(CMAKE_CXX_FLAGS_RELEASE -O1)
