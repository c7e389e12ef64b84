// SPDX-License-Identifier: Apache-2.0
// A linear programme in the making, and a lower bound of its minimum: minimise cost . x, where each variable stays
// between its limits and each row, a weighted sum of variables, between its own.
//
// COIN-OR's Clp solves it (dual simplex; EPL-2.0; dynamically linked). What is reported is not Clp's objective but what
// follows from the multipliers y that it found for the rows: for any y at all, with c' = cost - y . A,
//     minimum >= sum over rows of (y > 0 ? y low : y high) + sum over variables of (c' > 0 ? c' low : c' high),
// by weak duality. So neither a tolerance nor a solver that was stopped half way can make the bound too large.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace thermocline {

class LinearProgramme {
 public:
  LinearProgramme();
  ~LinearProgramme();

  // Limits of variables are finite.
  int add_variable(double low, double high, double cost = 0);
  int add_row(double low, double high);
  void add_term(int row, int variable, double weight);
  void set_row(int row, double low, double high);

  // How the first call solves it. kPresolved: what follows from other rows and limits is taken out before, which is
  // several times faster where there are tens of thousands of rows.
  enum class First { kAsItIs, kPresolved };
  // A row may change its limits between two calls, which then begin where the last one ended; nothing else may.
  double lower_bound(int most_iterations, First first = First::kAsItIs);

  // Of the last call: what the bound gains for each unit by which a row's limit gets narrower.
  double multiplier(int row) const { return multipliers_[static_cast<std::size_t>(row)]; }

  std::size_t variables() const { return cost_.size(); }
  std::size_t rows() const { return row_low_.size(); }

 private:
  struct Term {
    int row;
    int variable;
    double weight;
  };
  struct Columns;
  struct Solver;

  void load();
  double weak_duality() const;

  std::vector<double> low_, high_, cost_;
  std::vector<double> row_low_, row_high_;
  std::vector<double> multipliers_;  // per row
  std::vector<Term> terms_;
  std::unique_ptr<Columns> columns_;
  std::unique_ptr<Solver> solver_;
};

inline constexpr double kUnlimited = 1e300;  // as a row's limit

}  // namespace thermocline
