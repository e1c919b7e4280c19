#!/bin/sh
# Builds all images of Tidegate for this machine's architecture and loads them into a local cluster:
#
#   demo/kubernetes/cluster/images.sh kind      (or k3d)
#
# Needs docker with buildx, and kind or k3d. The name of the cluster and the tag can be given as CLUSTER and TAG.
set -eu

tool=${1:-}
cluster=${CLUSTER:-tidegate}
root=$(cd "$(dirname "$0")/../../.." && pwd)
tag=${TAG:-$(sed -n 's/^appVersion: //p' "$root/charts/tidegate/Chart.yaml")}

case "$tool" in
kind | k3d) ;;
*)
    echo "usage: $0 kind|k3d" >&2
    exit 2
    ;;
esac
for program in docker "$tool"; do
    if ! command -v "$program" >/dev/null; then
        echo "$program is needed, and not in the search path" >&2
        exit 1
    fi
done

images=
for target in proxy redirect controller injector demo; do
    image=tidegate/$target:$tag
    docker buildx build --load --file "$root/charts/Dockerfile" --target "$target" --tag "$image" "$root"
    images="$images $image"
done

case "$tool" in
# Words are what is wanted here: one image each.
# shellcheck disable=SC2086
kind) kind load docker-image --name "$cluster" $images ;;
# shellcheck disable=SC2086
k3d) k3d image import --cluster "$cluster" $images ;;
esac
