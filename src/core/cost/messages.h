// What the stages of a pipeline wait for each other's messages, as the stack sends them (schedule/sends.h).
//
// With x the seconds of one message, p stages of v chunks, f the forward pass of one chunk of the mean stage and w
// messages from the last stage to the first per micro-batch, each of the two stages at a boundary waits per micro-batch
// and chunk for
//     one chunk, or no overlap        x
//     overlapped                      max(0, x - f)
//     ... and forward sends block     x / 2
// An overlapped message has the pass of the other direction to hide behind, and the shorter of the two is the forward
// pass. Where a node's uplink carries both directions, what is longer than f meets the message of the other direction: a
// slot takes b + 2 x - f, which is the second line; on links of their own it takes b + x, so the line is above it there.
// The third: the sender waits for every forward message, and the backward one hides behind both; half of x on each side
// of the boundary is what every stage between two others waits for.
//
// What hides in a full pipeline does not in one that fills and drains. A step is longer by
//     sum over boundaries h(x) + [w min(p, m) h(x of the wrap-around)],     h(x) = 2 (x - what is waited for)
// once: the first and the last micro-batch pass all boundaries, and unless the flush overlaps too the last stage waits for
// its w min(p, m) first forward messages and as many last backward ones, of m micro-batches. x is that of the smallest boundary of the model, so that
// this does not depend on the cut.
//
// By the least law (schedule/step_time.h) an overlapped message is waited for by nobody, or, where forward sends block, by
// its sender: x for every chunk of all stages but the last, x of the wrap-around w times of that. With X the sum of x over
// all boundaries, the ways of the least law are longer than what stages wait for by
//                                 there and back (D)           the last chunk's first (E)
//     no overlap                  0                            - (2 w + 2 (p - 1)) x wrapped / v
//     overlapped                  2 (v X + w x wrapped)        2 X
//     ... forward sends block     v X + w x wrapped            X - w x wrapped / v
// since no wrap-around is on the way of the first chunk to the last stage and back. Without overlap the first stage waits for
// those in all but its first chunk, and in the forwards that others replace more often than in the mean.
#pragma once

#include <vector>

#include "cost/group_time.h"
#include "cost/job.h"
#include "cost/tables.h"
#include "schedule/sends.h"
#include "schedule/step_time.h"

namespace nest::cost {

// How a strategy's stages send.
schedule::Sends sends_of(const SoftwareStack& stack, const Strategy& strategy);

// Lines of one message: over the boundary after each stage but the last, and from the last to the first.
struct MessageLines {
  std::vector<CostLine> hops;
  CostLine wrap;
};
MessageLines message_lines(const cluster::Cluster& cluster, const Strategy& strategy, schedule::Law law);

class MessageRule {
 public:
  // `mean_forward_s`: of all chunks of the mean stage (mean_stage()).
  MessageRule(const Job& job, const Strategy& strategy, double mean_forward_s);

  // Of one message of x seconds, on each side; and by the least law of a forward message, by its sender alone.
  double exposed_s(double message_s) const;
  double sender_s(double message_s) const { return blocks_least() ? message_s : 0; }
  // Such that exposed_s(x) >= share x; by the least law, that all stages together wait for 2 share x per boundary and chunk.
  double least_share() const;
  // By which a step is longer; 0 where nothing hides.
  double fill_s(const MessageLines& lines, double least_cut_bytes, double wrap_bytes) const;
  // D, E and W of the least law.
  void add_ways(const MessageLines& lines, double least_cut_bytes, double most_cut_bytes, double wrap_bytes,
                schedule::StepForm& form) const;

 private:
  bool blocks_least() const { return least_ && sends_.overlapped && sends_.forward_blocks; }

  schedule::Sends sends_;
  bool least_ = false;
  double chunks_ = 1;
  double wraps_ = 0;  // w
  double window_s_ = 0;
  double held_wraps_ = 0;  // w min(p, m), where the flush does not overlap
};

// The rule with the mean stage of the job's model; `table` is of the strategy's split and micro-batch.
MessageRule message_rule(const Job& job, const Strategy& strategy, const PriceTable& table);

// Per boundary after stage s, what each of the two stages waits per micro-batch (all chunks, what is exposed of it);
// the wrap-around last.
std::vector<double> message_seconds(const MessageRule& rule, const MessageLines& lines, const Strategy& strategy,
                                    const PriceTable& table, const std::vector<StagePlan>& stages);

}  // namespace nest::cost
