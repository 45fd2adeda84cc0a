// Everything that nest offers; docs/library.md is the tour.
//
//   Question -> TrainingJob     read_job                     nest/job.h
//   TrainingJob -> Answer       find_plan                    nest/search.h
//   Question -> MappedCell …    map_cells                    nest/map.h
//   Question, Demand -> DemandAnswer  meet_demand            nest/demand.h
//   Question -> LargestAnswer   find_largest                 nest/largest.h
//   Question -> PoolsAnswer     plan_pools                   nest/pools.h
//   TrainingJob -> FailureAnswer  plan_with_failures         nest/failures.h
//   strategy, plan -> Plan      evaluate_plan                nest/evaluate.h
//   Plan -> Verdict             check_plan                   nest/check.h
//   Plan -> what to draw        pipeline_json, placement_json nest/draw.h
//   Plan -> Simulation          simulate_plan                nest/simulate.h
//   TrainingJob -> Comparison   compare_planners             nest/compare.h
//   lists -> CandidateComparison compare_candidates          nest/candidates.h
//   Study -> SweepResults       run_sweep, read_results      nest/sweep.h
//   Plan -> Export              export_plan                  nest/export.h
//   launch line -> LaunchAnswer evaluate_launch              nest/launch.h
//   files -> ClusterImport      import_cluster               nest/import.h
//   name -> Shown               show                         nest/show.h
//
// Every answer is read by people with to_text(), by programs with to_json(), and where it has drawings with to_html().
// Wrong input throws InputError (nest/error.h). All functions may be called by several threads at once. They read the
// files that they are named, and write none but the databases of sweeps.
#pragma once

#include "nest/calibrate.h"
#include "nest/candidates.h"
#include "nest/check.h"
#include "nest/compare.h"
#include "nest/demand.h"
#include "nest/dimension.h"
#include "nest/draw.h"
#include "nest/error.h"
#include "nest/evaluate.h"
#include "nest/export.h"
#include "nest/failures.h"
#include "nest/import.h"
#include "nest/instance.h"
#include "nest/job.h"
#include "nest/largest.h"
#include "nest/launch.h"
#include "nest/map.h"
#include "nest/plan.h"
#include "nest/pools.h"
#include "nest/report.h"
#include "nest/schema.h"
#include "nest/search.h"
#include "nest/show.h"
#include "nest/simulate.h"
#include "nest/sweep.h"
#include "nest/version.h"
