#!/bin/sh
# The fault switch: what the backends of zone-a do, until they are told otherwise.
#
#   demo/kubernetes/fault.sh fail        every request fails with 503
#   demo/kubernetes/fault.sh hang        requests are accepted and never answered
#   demo/kubernetes/fault.sh slow        answers take 400 ms longer
#   demo/kubernetes/fault.sh off         all is well again
#
# ZONE names another zone.
set -eu

zone=${ZONE:-zone-a}
case "${1:-}" in
fail) change='fail-percent=100' ;;
hang) change='hang' ;;
slow) change='add-latency=400ms' ;;
off) change='reset' ;;
*)
    echo "usage: $0 fail|hang|slow|off" >&2
    exit 2
    ;;
esac

pods=$(kubectl -n tidegate-demo get pods -l "app.kubernetes.io/name=backend,zone=$zone" --field-selector status.phase=Running -o name)
if [ -z "$pods" ]; then
    echo "no backend runs in $zone: is the demo applied (kubectl apply -k demo/kubernetes)?" >&2
    exit 1
fi
for pod in $pods; do
    # Through the API server, so that neither an image with curl nor a port forward is needed.
    kubectl create --raw "/api/v1/namespaces/tidegate-demo/pods/${pod#pod/}:8080/proxy/_control?$change" -f /dev/null >/dev/null
    echo "$pod: $change"
done
