// SPDX-License-Identifier: Apache-2.0
// The part of NCCL's API that the programs here use and that their own library (fake.cc) provides, as in nccl.h of NCCL
// 2.28, which need not be installed.
#pragma once

// NOLINTBEGIN(modernize-deprecated-headers,readability-identifier-naming,modernize-redundant-void-arg): C reads it,
// too.
#include <cuda.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm* ncclComm_t;

enum { ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclInvalidArgument = 4, ncclInvalidUsage = 5, ncclInProgress = 7 };
enum { ncclUint32 = 3 };
enum { ncclSum = 0 };

int ncclCommInitAll(ncclComm_t* comms, int count, const int* devices);
int ncclCommDestroy(ncclComm_t comm);
int ncclCommCount(ncclComm_t comm, int* count);
int ncclCommGetAsyncError(ncclComm_t comm, int* result);
int ncclAllReduce(const void* send, void* receive, size_t count, int type, int op, ncclComm_t comm, CUstream stream);
int ncclBroadcast(const void* send, void* receive, size_t count, int type, int root, ncclComm_t comm, CUstream stream);
int ncclReduce(const void* send, void* receive, size_t count, int type, int op, int root, ncclComm_t comm,
               CUstream stream);
int ncclAllGather(const void* send, void* receive, size_t count, int type, ncclComm_t comm, CUstream stream);
int ncclReduceScatter(const void* send, void* receive, size_t count, int type, int op, ncclComm_t comm,
                      CUstream stream);
int ncclSend(const void* send, size_t count, int type, int peer, ncclComm_t comm, CUstream stream);
int ncclRecv(void* receive, size_t count, int type, int peer, ncclComm_t comm, CUstream stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclCommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle);
int ncclCommDeregister(ncclComm_t comm, void* handle);
int ncclMemAlloc(void** out, size_t bytes);
int ncclMemFree(void* at);

// Not part of NCCL: acts as a network card that may write to the registered buffers at any time.
int fakeDeliver(ncclComm_t comm, CUstream stream);
// Not part of NCCL either: from now on nothing is submitted before ncclCommGetAsyncError is called.
void fakeGoToBackground(ncclComm_t comm);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-deprecated-headers,readability-identifier-naming,modernize-redundant-void-arg)
