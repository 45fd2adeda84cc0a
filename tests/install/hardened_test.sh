#!/usr/bin/env bash
# Programs and modules as cmake/NestHardening.cmake means them to be: nothing of the tables of addresses stays writable, no stack is
# executed, code lies anywhere, stacks are guarded and, where the build is optimised, calls of the C library are checked.
# usage: hardened_test.sh CONFIGURATION FILE...
set -euo pipefail
configuration=$1
shift
failed=0
wrong() {
  echo "$file: $*" >&2
  failed=1
}
for file in "$@"; do
  header=$(readelf -hW "$file") segments=$(readelf -lW "$file") dynamic=$(readelf -dW "$file") symbols=$(readelf -sW "$file")
  grep -q 'Type:.*DYN' <<<"$header" || wrong "has a fixed address"
  grep -q 'GNU_RELRO' <<<"$segments" || wrong "has no tables that become read-only (GNU_RELRO)"
  grep -qE 'BIND_NOW|Flags:.* NOW' <<<"$dynamic" || wrong "looks up functions when they are called (no BIND_NOW)"
  grep -q 'GNU_STACK' <<<"$segments" || wrong "does not say that stacks are not executed (GNU_STACK)"
  # Read-only, or writable, or executable: nothing is both of the last two.
  if awk '$1 == "GNU_STACK" || $1 == "LOAD"' <<<"$segments" | grep -qE ' R?WE '; then wrong "has memory that is written and executed"; fi
  if grep -q 'TEXTREL' <<<"$dynamic"; then wrong "changes its code when it is loaded (TEXTREL)"; fi
  # A static program has the function itself, where its symbols were not removed.
  if grep -q 'NEEDED' <<<"$dynamic" || grep -q FUNC <<<"$symbols"; then
    grep -q '__stack_chk_fail' <<<"$symbols" || wrong "guards no stack (__stack_chk_fail)"
    case $configuration in
      Release | RelWithDebInfo | MinSizeRel)
        grep -qE '__(mem|str|v?s?n?printf|f?read|poll|realpath|readlink|recv)[a-z]*_chk' <<<"$symbols" || wrong "checks no size in the C library (__…_chk)"
        ;;
    esac
  fi
done
exit $failed
