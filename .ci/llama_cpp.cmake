# What the tests need of llama.cpp, compiled in a third of the time: without the library that its programs share (chat
# templates, an HTTP client) and without images, and optimized so little that only its hand-written kernels are fast.
# CMake reads this before the project (CMAKE_PROJECT_TOP_LEVEL_INCLUDES). llama-cpp-python forces the cache variable
# LLAMA_BUILD_COMMON to ON; this one, which is no cache variable, stands before it (policy CMP0126).
set(LLAMA_BUILD_COMMON OFF)
set(LLAVA_BUILD OFF)
set(LLAMA_ALL_WARNINGS OFF)
# Without AMX: on a processor that has it, llama.cpp 0.3.36 ends the process with some quantized weights (SIGSEGV in a
# build with its own flags, a failed assertion in this one).
set(KVJOBS_FLAGS "-O1")
if(CMAKE_HOST_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(KVJOBS_FLAGS "-O1 -mno-amx-tile -mno-amx-int8 -mno-amx-bf16")
endif()
set(CMAKE_C_FLAGS_RELEASE ${KVJOBS_FLAGS})
set(CMAKE_CXX_FLAGS_RELEASE ${KVJOBS_FLAGS})
