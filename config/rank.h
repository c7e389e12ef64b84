// SPDX-License-Identifier: Apache-2.0
// Which of several processes of one job this is, as launchers tell their processes: torchrun, Open MPI, MPICH and Intel
// MPI, MVAPICH2, PMIx, Slurm. A launcher may stand within another one (mpirun within a Slurm job, torchrun within
// either): the innermost names the process, so it is asked for first.
//   https://docs.pytorch.org/docs/stable/elastic/run.html (environment variables)
//   https://docs.open-mpi.org/en/v4.1.x/faq/running.html (mpirun, environment variables)
//   https://slurm.schedmd.com/srun.html (output environment variables)
#pragma once

#include <map>
#include <optional>
#include <string>

namespace thermocline {

struct Rank {
  int rank = 0;
  std::optional<int> local;  // on this machine
  std::optional<int> size;   // processes of the job
};

// Nothing: no launcher has named it.
std::optional<Rank> rank_in(const std::map<std::string, std::string>& variables);
std::optional<Rank> rank_of_process();

}  // namespace thermocline
