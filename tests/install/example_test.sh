#!/usr/bin/env bash
# The example prints a plan. usage: example_test.sh PROGRAM
set -euo pipefail
answer=$("$1")
echo "$answer"
grep -q 'tp=' <<<"$answer"
grep -qE '[0-9] s per step' <<<"$answer"
