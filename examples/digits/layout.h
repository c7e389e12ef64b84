// SPDX-License-Identifier: Apache-2.0
// Sizes of the network's arrays, for host and device code. Activations are [image][channel][row][pixel], depthwise
// weights [channel][3][3], pointwise weights [out][in + bias], the classifier's [class][feature].
#pragma once

namespace digits {

inline constexpr int kSide = 8;
inline constexpr int kPixels = kSide * kSide;
inline constexpr int kChannels = 16;
inline constexpr int kFeatures = kChannels * kPixels;
inline constexpr int kClasses = 10;
// A thousand features that change at once would change the logits too much for one rate to suit all layers.
inline constexpr float kFeatureScale = 0.125f;
inline constexpr int kTaps = 9;
// The constant 1 beside the input channels, whose weight is the bias.
inline constexpr int kPointwiseInputs = kChannels + 1;
inline constexpr int kChunks = 32;

}  // namespace digits
