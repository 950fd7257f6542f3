#!/usr/bin/env bash
# The main path in six commands: from a folder of files to cited answers, and how good they are.
#     bash examples/demo.sh [COLLECTION]        default: ./demo-collection
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
collection=${1:-demo-collection}

# Show a command as one would type it, and run it.
run() {
    printf '\n$'
    local word
    for word in "$@"; do
        case $word in *[!a-zA-Z0-9_./=@:,+-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '\n'
    "$@"
}

# Exit code 3 says: published, but more documents failed than max_failed_fraction allows. Two of
# these files are broken on purpose, so either is well here.
run rag-cluster ingest examples/corpus --collection "$collection" \
    --set 'metadata.fields={product: keyword, year: int}' || [ $? -eq 3 ]
run rag-cluster inspect --collection "$collection" --failures
run rag-cluster ask 'How far away from an obstacle must the mast stand?' --collection "$collection"
run rag-cluster ask 'How much rain did the unshielded gauge lose?' --collection "$collection"
run rag-cluster ask 'How do I reset the password?' --collection "$collection" \
    --filter '{"year": {"gte": 2025}}'
run rag-cluster evaluate --collection "$collection" --queries examples/questions.jsonl \
    --qrels examples/qrels.tsv --metrics 'Success@1 Success@5 nDCG@10 RR@10'
