# One image for the CPU and for NVIDIA GPUs. docs/docker.md says how to build and use it; compose.yaml has the usual commands.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=1 go build -trimpath -ldflags='-s -w' -o /restyle/bin/ ./cmd/... \
 && mkdir /restyle/data && cp data/passive_aggressive_data.json data/passive_aggressive_data.certificates.jsonl /restyle/data/

# NVIDIA's run-time compiler: the CUDA that the driver supports, 13 or 12; none for the CPU alone. With CUBLASLT=1 also
# cuBLASLt, half a gigabyte: docs/docker.md says on which GPUs it is worth that. With NCCL=1 also NCCL, for several GPUs.
FROM python:3.13-slim-bookworm AS nvidia
ARG CUDA=13
ARG CUBLASLT=0
ARG NCCL=0
RUN mkdir /lib-nvidia && case $CUDA in \
      13) nvrtc=nvidia-cuda-nvrtc cublas=nvidia-cublas nccl=nvidia-nccl-cu13 ;; \
      12) nvrtc=nvidia-cuda-nvrtc-cu12 cublas=nvidia-cublas-cu12 nccl=nvidia-nccl-cu12 ;; \
      none) exit 0 ;; \
      *) echo "CUDA=$CUDA: must be 13, 12 or none" >&2; exit 1 ;; \
    esac \
 && pip install --no-cache-dir --no-deps --target /wheels "$nvrtc" $(test "$CUBLASLT" = 0 || echo "$cublas") \
      $(test "$NCCL" = 0 || echo "$nccl") \
 && find /wheels \( -name 'libnvrtc*.so.*' -o -name 'libcublasLt.so.*' -o -name 'libnccl.so.*' \) ! -name '*.alt.*' \
      -exec cp {} /lib-nvidia/ \;

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 restyle
COPY --from=nvidia /lib-nvidia/ /usr/local/lib/
RUN ldconfig
COPY --from=build --chown=restyle /restyle /restyle
# What the container toolkit reads: all GPUs, and of the driver what computes and what monitors.
ENV PATH=/restyle/bin:$PATH NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER restyle
WORKDIR /restyle
CMD ["train", "--fused"]
