// SPDX-License-Identifier: Apache-2.0
// Words that streams write and wait for: what the driver does not do is refused under the library as well.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  TELL(cuStreamWriteValue32(NULL, buffers[0], 5, CU_STREAM_WRITE_VALUE_DEFAULT));
  TELL(cuStreamWaitValue32(NULL, buffers[0], 5, CU_STREAM_WAIT_VALUE_GEQ));
  TELL(cuStreamWriteValue64(NULL, buffers[1], 6, CU_STREAM_WRITE_VALUE_DEFAULT));
  CUstreamBatchMemOpParams values[2] = {{0}};
  values[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  values[0].writeValue.address = buffers[2];
  values[0].writeValue.value = 7;
  values[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  values[1].waitValue.address = buffers[2];
  values[1].waitValue.value = 7;
  TELL(cuStreamBatchMemOp(NULL, 2, values, 0));
  mix_all(NULL);
  return finish();
}
