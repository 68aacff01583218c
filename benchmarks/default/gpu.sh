#!/bin/sh
# Let many processes share one GPU at the same time rather than by turns, and run a command so:
#     sh benchmarks/default/gpu.sh python3 benchmarks/default/grid.py ...
folder=${TMPDIR:-/tmp}/mps-$$
mkdir -p "$folder"
export CUDA_MPS_PIPE_DIRECTORY="$folder" CUDA_MPS_LOG_DIRECTORY="$folder"
if command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d; then
    sleep 1
    # A machine may have the command but not allow it: then processes take turns.
    if ! python3 -c 'import torch; torch.zeros(1, device="cuda")' 2> /dev/null; then
        echo "the GPU cannot be used through MPS; going on without"
        echo quit | nvidia-cuda-mps-control
        unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    fi
else
    echo "no MPS here; processes take turns on the GPU"
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
fi
"$@"
status=$?
if [ -n "$CUDA_MPS_PIPE_DIRECTORY" ]; then
    echo quit | nvidia-cuda-mps-control
fi
exit $status
