#!/bin/sh
# Run the test suite under the Vulkan validation layers, core and synchronization. First a control: a wrong
# call that the layer must report, so that silence afterwards means something.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/validation
log=$PWD/build/validation/messages.txt
cat > build/validation/vk_layer_settings.txt <<END
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.log_filename = $log
khronos_validation.report_flags = error,warn,perf
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
khronos_validation.validate_sync = true
END
export VK_LAYER_SETTINGS_PATH="$PWD/build/validation" VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
.venv/bin/python -c 'import sys; sys.path.insert(0, "tests"); import control; control.wrong_call()' || true
grep -q "Validation" "$log" || { echo "validate: the layer did not report the control (is vulkan-validationlayers installed?)" >&2; exit 2; }
echo "validate: the control was reported: $(grep -m1 -o 'VUID[^ ]*' "$log")"
rm -f "$log"
.venv/bin/python -m pytest -q -m "not slow" "$@"
if grep -q "Validation" "$log" 2>/dev/null; then
    echo "validate: messages in $log:" >&2; head -40 "$log" >&2; exit 1
fi
echo "validate: no message over the whole suite"
