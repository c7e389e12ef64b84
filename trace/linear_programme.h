// SPDX-License-Identifier: Apache-2.0
// Builds a linear programme and computes a lower bound of its minimum: minimize cost . x, where each variable and each
// row, a weighted sum of variables, has limits.
//
// COIN-OR's Clp solves it (dual simplex; EPL-2.0; dynamically linked). The result is not Clp's objective, but what
// follows from the multipliers y that Clp found for the rows: for any y, with c' = cost - y . A,
//     minimum >= sum over rows of (y > 0 ? y low : y high) + sum over variables of (c' > 0 ? c' low : c' high),
// by weak duality. So neither a tolerance nor a solver that was stopped early can make the bound too large.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace thermocline {

class LinearProgramme {
 public:
  LinearProgramme();
  ~LinearProgramme();

  // Limits of variables must be finite.
  int add_variable(double low, double high, double cost = 0);
  int add_row(double low, double high);
  void add_term(int row, int variable, double weight);
  void set_row(int row, double low, double high);

  // How the first call solves it. kPresolved: redundant rows and variables are removed first, which is several times
  // faster with tens of thousands of rows.
  enum class First { kAsItIs, kPresolved };
  // Between two calls only limits of rows may change; the second call then starts from the solution of the first.
  double lower_bound(int most_iterations, First first = First::kAsItIs);

  // After lower_bound: the increase of the bound for each unit by which a limit of the row is tightened.
  double multiplier(int row) const { return multipliers_[static_cast<std::size_t>(row)]; }

  // After lower_bound: whether the solver finished; value(): if so, the variable's value in the best solution.
  bool is_solved() const;
  double value(int variable) const;

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

inline constexpr double kUnlimited = 1e300;  // a limit of a row that does not exist

}  // namespace thermocline
