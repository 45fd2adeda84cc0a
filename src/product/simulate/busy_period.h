// When links are done at the earliest, however what travels over them shares them.
//
// Transfers j may begin at r_j, put w_j seconds of work on a link, and at least q_j passes after each of them. All that
// begins at r or later is work of the time after r, whichever share of the link each transfer has of it:
//     end >= max over r of  r + sum_{r_j >= r} w_j + min_{r_j >= r} q_j
// Where a link is never idle while something waits for it, its last busy period ends just then (q = 0). Only the given times are tried as r, each put off to the first transfer that begins
// after it.
#pragma once

#include <cstdint>
#include <vector>

#include "simulate/symmetry.h"

namespace nest::simulate {

class BusyPeriods {
 public:
  // `network` must outlive it.
  BusyPeriods(const Quotient& network, std::vector<double> times_s);

  // So much of an exchange, of all classes of replicas.
  void add(std::int32_t exchange, const Amount& amount, double begin_s, double after_s);

  double end_s() const;

 private:
  struct Begun {                         // from one of the times to the next
    double bytes = 0, beyond_bytes = 0;  // as Amount has them
    double first_s = 0;
  };
  struct Exchange {
    std::vector<Begun> begun;  // by time; empty: nothing of it travels
    double after_s = 0;
  };

  const Quotient& network_;
  std::vector<double> times_s_;  // rising, 0 first
  std::vector<Exchange> exchanges_;
};

}  // namespace nest::simulate
