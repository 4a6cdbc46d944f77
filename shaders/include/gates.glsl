// exp, sigmoid, silu and softplus to about 1 ulp on every driver: Vulkan's own exp and log may be off by
// far more, and an error in a decay gate is repeated at every token. NaN goes in, NaN comes out.

float exp_nonpositive(float x) {  // e^x for x <= 0; 0 below -87
    float n = roundEven(x * 1.44269504);
    // n * 355/512 is exact, the second constant is what ln 2 has beyond it
    float r = (x - n * 0.693359375) + n * 2.12194440e-4;
    float p = 1.0 + r * (1.0 + r * (1.0 / 2.0 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0
            + r * (1.0 / 720.0 + r * (1.0 / 5040.0)))))));
    return x < -87.0 ? 0.0 : p * uintBitsToFloat(uint(int(n) + 127) << 23);
}

float sigmoid(float x) {
    float e = exp_nonpositive(-abs(x));
    return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
}

float silu(float x) { return x * sigmoid(x); }

float softplus(float x) {
    // max(x, 0) + log(1 + e^-|x|), with log(1 + e) = 2 atanh(z), z = e / (2 + e) <= 1/3, as its series
    float e = exp_nonpositive(-abs(x));
    float z = e / (2.0 + e), w = z * z;
    float p = 1.0 + w * (1.0 / 3.0 + w * (1.0 / 5.0 + w * (1.0 / 7.0 + w * (1.0 / 9.0 + w * (1.0 / 11.0
            + w * (1.0 / 13.0 + w * (1.0 / 15.0)))))));
    return max(x, 0.0) + 2.0 * z * p;
}
