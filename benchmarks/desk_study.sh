#!/usr/bin/env bash
# A first table for docs/study.md, in less than 12 minutes on a quiet machine with two cores:
# rows and weights by every way, and Pendulum-v1 beside Stable-Baselines3 and SBX with one seed.
# usage: benchmarks/desk_study.sh [OUT]        (after `make peers PEERS="sb3 sbx"`; without it their rows say so)
set -eu
cd "$(dirname "$0")/.."
out=${1:-runs/desk-study}
spreeze=${SPREEZE:-.venv/bin/spreeze}
mkdir -p "$out"

$spreeze bench transfer --transport all --json > "$out/transfer.json"                                   # about 1.5 min
$spreeze bench transfer --transport ring,pool,queue,pipe --block 1,8 --hz flat-out --json > "$out/transfer-blocks.json"
$spreeze bench transfer --transport ring,pool,queue,pipe --row-bytes 2860 --hz flat-out --json > "$out/transfer-rows.json"
$spreeze bench weights --json > "$out/weights.json"
$spreeze bench compare Pendulum-v1 --threshold -200 --seeds 1 --seconds 90 --peers sb3,sbx --out "$out/compare-pendulum"
echo "raw data: $out" >&2
