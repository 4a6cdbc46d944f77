// Rounding of 32 activations to levels -127 to 127. The largest magnitude becomes 127 - c levels, c from 0 to 7:
// the one that loses least, a fifth less than 127 alone (spvk/kernels/quantize_rows.py does the same to the bit).
const int TRIES = 8;

// Squared error in levels, summed in order.
float lost(float v[RUN], float to_levels) {
    precise float sum = 0.0;
    [[unroll]] for (int i = 0; i < RUN; i++) {
        precise float level = v[i] * to_levels;
        precise float error = level - roundEven(level);
        precise float square = error * error;
        sum = sum + square;
    }
    return sum;
}

// The elements as levels; returns the scale. What is not finite makes the scale NaN.
float round_run(float v[RUN], out int levels[RUN]) {
    uint most = 0;
    [[unroll]] for (int i = 0; i < RUN; i++)
        most = max(most, floatBitsToUint(v[i]) & 0x7fffffffu);  // NaN is above all
    bool usable = most > 0x0d800000u && most < 0x7f800000u;  // above 2^-100: 127 / most is finite
    float largest = uintBitsToFloat(most), best = 127.0, least = 1.0 / 0.0;
    [[dont_unroll]] for (int c = 0; c < TRIES; c++) {
        float top = 127.0 - float(c);
        precise float loss = lost(v, top / largest) / (top * top);
        if (loss < least) {
            least = loss;
            best = top;
        }
    }
    float to_levels = best / largest;
    [[unroll]] for (int i = 0; i < RUN; i++) levels[i] = usable ? int(roundEven(v[i] * to_levels)) : 0;
    return usable ? largest / best : most < 0x7f800000u ? 0.0 : uintBitsToFloat(0x7fc00000u);
}
