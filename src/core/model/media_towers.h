// Towers that read pictures or sound, as the files of models that have them describe them; internal to
// families_media.cc and families_gemma.cc.
//
// Rows of a picture are its patches, image_size² / patch_size², or kUsualPatches where the file leaves the size open. A
// sequence has one picture or clip of 30 seconds.
#pragma once

#include "model/families.h"

namespace nest::model::families {

// Where pictures come in any size: 448 x 448 in patches of 14.
inline constexpr std::int64_t kUsualPatches = 1024;

// A tower by its model_type, `otherwise` where the file has none.
Tower read_vision_tower(Config& vision, std::string_view otherwise);

// Llama 3.2's: a picture in tiles, each with a class token, through blocks of which the last ones are gated. Outputs of
// some blocks on the way stand beside the last one's, and one projection brings them to `hidden`.
Tower read_mllama_tower(Config& vision, std::int64_t hidden);

// The vision towers of Qwen's, GLM's and their kin, whose projector is part of the tower.
Tower read_merging_tower(Config& vision, std::string_view model_type);

// Whisper's encoder and its kin: two convolutions over time, then blocks.
Tower read_sound_tower(Config& audio, std::string_view model_type);

// Gemma 4's pictures: any shape, as many patches as `tokens` of them are pooled from.
Tower read_gemma4_vision_tower(Config& vision, double tokens);

// Gemma 3n's and 4's sound: two convolutions, conformers that attend within short chunks.
Tower read_conformer_tower(Config& audio);

// MobileNet-V5 (300M) of Gemma 3n, for pictures of 768 x 768: two towers, of which the second follows the first.
std::vector<Tower> mobilenet_v5_towers();

// The model of text, as its own family reads it. A file that says so itself decides whether tables are tied.
Architecture read_text(Config& config, std::string_view family);

Architecture with_tower(Architecture architecture, Tower tower);

// Steps of projectors.
Step linear_step(std::int64_t in, std::int64_t out, bool bias, double rows = 0);
Step norm_step(std::int64_t in, NormKind norm, double rows = 0);
Step plain_norm_step(std::int64_t in, double rows = 0);  // RMSNorm without weight
Step activation_step();
Step table_step(std::int64_t rows, std::int64_t width);
Step unused_step(std::int64_t elements);

}  // namespace nest::model::families
