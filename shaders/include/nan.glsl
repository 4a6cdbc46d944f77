// NaN that stays NaN. Drivers may drop it in max() and clamp it away inside exp(), and may fold x != x:
// the bits tell.
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

float max_nan(float a, float b) { return is_nan(a) ? a : is_nan(b) ? b : max(a, b); }

float exp_nan(float x) {
    float e = exp(x);  // first, so that no branch is made of it
    return is_nan(x) ? x : e;
}

float sigmoid(float x) {
    float e = exp_nan(-abs(x));  // never above 1: no overflow on either side
    return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
}
