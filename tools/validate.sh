#!/bin/sh
# Run the test suite under the Vulkan validation layers, core and synchronization. First a control: a wrong
# call that the layer must report, so that silence afterwards means something.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/validation
log=$PWD/build/validation/output.txt
# Messages go to standard output: a log file of the layer's own starts anew with every instance.
cat > build/validation/vk_layer_settings.txt <<END
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.log_filename = stdout
khronos_validation.report_flags = error,warn,perf
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
khronos_validation.validate_sync = true
END
export VK_LAYER_SETTINGS_PATH="$PWD/build/validation" VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
.venv/bin/python -c 'import sys; sys.path.insert(0, "tests"); import control; control.wrong_call()' > "$log" || true
reported=$(grep -m1 -o 'VUID-[A-Za-z0-9-]*' "$log" | head -1)
[ -n "$reported" ] || { echo "validate: the layer did not report the control (is vulkan-validationlayers installed?)" >&2; exit 2; }
echo "validate: the control was reported ($reported)"
status=0
.venv/bin/python -m pytest -q -s "$@" > "$log" 2>&1 || status=$?
tail -3 "$log"
if grep -qE "VUID-|SYNC-HAZARD|Validation (Error|Warning|Performance)" "$log"; then
    echo "validate: messages of the layers, in $log:" >&2
    grep -E "VUID-|SYNC-HAZARD|Validation (Error|Warning|Performance)" "$log" | sort | uniq -c | sort -rn | head -20 >&2
    exit 1
fi
[ $status = 0 ] || exit $status
echo "validate: no message over the whole suite"
