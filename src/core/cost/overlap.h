// What of the experts' exchanges a layer waits for, where they run beside compute.
//
// Expert overlap (Megatron's combined schedule): the forward pass of one micro-batch runs against the backward pass of
// another, layer by layer, on two streams. Per layer three slots follow each other:
//
//     exchange   Cb                      | D, then Db                            | C
//     compute    A (attention, router)   | Mb, Mw, then M (experts)              | Ab, Aw
//
// An exchange keeps multiprocessors busy, or disturbs what it runs beside: of its time y, compute loses ρ y. A slot with
// compute x and exchange y takes max(y, x + ρ y); the middle one
//     max( max(D, Mb + Mw + ρ D) + M + ρ Db,  max(D, Mb + ρ D) + Db )
// because the experts' forward pass needs D, and Db needs Mb. Unless weight gradients are delayed, Mw is part of Mb.
// ρ is the share of the multiprocessors that the dispatcher holds; across innermost units at least 0.5.
//
// The first passes of a step meet none to pair with, and so do the last: of m v chunks that the first stage of p passes,
// w = 2(p-1) + (v-1)g + 1 (Megatron's warm-up, which sets the time of a step). Pipelines without virtual stages do not
// pair at all, nor do stages that recompute whole layers or experts.
//
// Shared-expert overlap instead: shared experts of S seconds run beside D and C, whose exposed part is then
// max(0, D + C - S) + σ min(D + C, S); backward likewise.
#pragma once

#include "cost/stack.h"
#include "plan/plan.h"

namespace nest::cost {

// Seconds of one layer and micro-batch.
struct PairedLayer {
  double attention_s = 0;                          // A
  double attention_back_s = 0;                     // Ab + Aw
  double experts_s = 0;                            // M
  double experts_input_s = 0;                      // Mb
  double experts_weight_s = 0;                     // Mw
  double dispatch_s = 0, combine_s = 0;            // D, C
  double dispatch_back_s = 0, combine_back_s = 0;  // Db, Cb

  double compute_s() const { return attention_s + attention_back_s + experts_s + experts_input_s + experts_weight_s; }
  double exchange_s() const { return dispatch_s + combine_s + dispatch_back_s + combine_back_s; }
};

// One forward and one backward pass, paired. `loss` is ρ.
double pair_s(const PairedLayer& layer, double loss, bool delayed_weights);

// What is exposed of an exchange that runs beside work, max(0, y - x) + ρ min(x, y); `loss` is ρ.
double beside_s(double exchange_s, double work_s, double loss);

// ρ and σ of a stack's dispatcher on a device.
double dispatcher_share(const DispatchRule& rule, std::int64_t multiprocessors);
double overlap_loss(const DispatchRule& rule, std::int64_t multiprocessors, bool crosses_units);

// Share of the chunks of a strategy's stages that meet none to pair with; 1 where nothing pairs.
double alone_share(const Strategy& strategy, double micro_batches);
// Whether a stage that recomputes so may pair its passes.
bool can_pair(const SoftwareStack& stack, const Recomputation& recompute);

}  // namespace nest::cost
