// Models of the Hugging Face hub that lie in the local cache. Nothing is fetched.
//
// The cache is $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, the first that
// the environment gives; organisation/name lies there in models--organisation--name: refs/main names a folder of
// snapshots/.
#pragma once

#include <string>
#include <string_view>

namespace nest::load {

// Whether the word has the form of a hub's name, organisation/name, and not of a file's.
bool looks_like_hub_name(std::string_view word);

// The folder; empty where the environment says nothing of it.
std::string hub_cache();

// The config.json of a model: of the snapshot that refs/main names, else of the only one there is. Empty: it has none.
std::string find_in_hub_cache(std::string_view name);

}  // namespace nest::load
