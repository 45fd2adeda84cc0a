"""Run by tools/dist/check in an environment that holds the wheel and nothing else."""
import nest
import nest.profile  # noqa: F401  (pure Python: must be there)
import nest.verify  # noqa: F401

plan = nest.plan("llama3-8b", devices=8, global_batch=64)
assert plan.fits and plan.optimal, plan
assert nest.check(plan).sound
assert "--tensor-model-parallel-size" in str(nest.export(plan, to="megatron"))
assert nest.simulate(plan).simulated.iteration_s > 0
try:
    nest.plan("llama3-8b", devices=0)
    raise SystemExit("a mistake was not noticed")
except nest.InputError:
    pass
