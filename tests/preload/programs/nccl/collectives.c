// SPDX-License-Identifier: Apache-2.0
// Collective operations of two ranks, each kind in a group, with other work in between.
#include "tests/preload/programs/nccl/ranks.h"

static void all_reduce(void) {
  DONE(ncclGroupStart());
  for (int rank = 0; rank < RANKS; ++rank)
    DONE(ncclAllReduce(at(rank), at(rank), WORDS, ncclUint32, ncclSum, comms[rank], streams[rank]));
  DONE(ncclGroupEnd());
}

static void broadcast_and_reduce(void) {
  DONE(ncclGroupStart());
  for (int rank = 0; rank < RANKS; ++rank)
    DONE(ncclBroadcast(at(1), at(2 + rank), WORDS / 2, ncclUint32, 1, comms[rank], streams[rank]));
  DONE(ncclGroupEnd());
  DONE(ncclGroupStart());
  for (int rank = 0; rank < RANKS; ++rank)
    DONE(ncclReduce(at(2 + rank), rank == 0 ? at(1) : NULL, WORDS, ncclUint32, ncclSum, 0, comms[rank], streams[rank]));
  DONE(ncclGroupEnd());
}

// Nested groups count as one.
static void gather_and_scatter(void) {
  DONE(ncclGroupStart());
  DONE(ncclGroupStart());
  for (int rank = 0; rank < RANKS; ++rank)
    DONE(ncclAllGather(at(rank), at(2 + rank), WORDS / RANKS, ncclUint32, comms[rank], streams[rank]));
  DONE(ncclGroupEnd());
  DONE(ncclGroupEnd());
  DONE(ncclGroupStart());
  for (int rank = 0; rank < RANKS; ++rank)
    DONE(ncclReduceScatter(at(2 + rank), at(rank), WORDS / RANKS, ncclUint32, ncclSum, comms[rank], streams[rank]));
  DONE(ncclGroupEnd());
}

static void send_and_receive(void) {
  DONE(ncclGroupStart());
  DONE(ncclSend(at(0), WORDS, ncclUint32, 1, comms[0], streams[0]));
  DONE(ncclRecv(at(3), WORDS, ncclUint32, 0, comms[1], streams[1]));
  DONE(ncclGroupEnd());
}

int main(void) {
  begin_ranks(RANKS);
  for (int round = 0; round < 3; ++round) {
    all_reduce();
    crowd(4);
    broadcast_and_reduce();
    crowd(3);
    gather_and_scatter();
    crowd(4);
    send_and_receive();
    crowd(2);
  }
  return end_ranks(RANKS);
}
