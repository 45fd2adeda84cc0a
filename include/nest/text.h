// Words, numbers and lines as nest writes them, for programs around it that want to speak alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nest {

std::string_view trim(std::string_view text);
std::vector<std::string_view> split_text(std::string_view text, char separator);
std::string to_lower(std::string_view text);

// At most `limit` characters (UTF-8 sequences kept whole), with control characters and broken UTF-8 shown as '?',
// for quoting a user's value in a message.
std::string clip(std::string_view text, std::size_t limit);

// Text that may leave the program: what moves the cursor, changes the direction of text or cannot be seen is shown escaped as
// in JSON (\u001b, \u202e), bytes that are no UTF-8 as \xff; tabs and newlines stay. `inked`: so do colours of a Style.
std::string printable(std::string_view text, bool inked = false);
bool is_printable(std::string_view text);

// One word for a shell, in quotes where it needs them.
std::string shell_quoted(const std::string& word);

// "; did you mean `x`?" or nothing, to be appended to a message.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// "a, b and c"
std::string join_words(std::span<const std::string> words, std::string_view conjunction = "and");

// Which of `words` somebody means: as it is written, in other cases ("BF16"), or by another usual name ("adamw" is adam,
// "bfloat16" is bf16). Nothing where it is none of them.
std::optional<std::size_t> find_word(std::string_view word, std::span<const std::string> words);

// A whole number as people write it: "131072", "131,072", "128k" (k is 1,024 and M 1,048,576, as for sequences and
// batches). Nothing where it is none.
std::optional<std::int64_t> parse_whole(std::string_view text);

// "70B", "1.5T", "300e9", "15 trillion" -> a plain count. Throws InputError.
double parse_count(std::string_view text);

// "900 GB/s", "400Gbps", "12.5GB/s", "50 GiB/s" -> bytes per second. Throws InputError.
double parse_bandwidth(std::string_view text);

// "5us", "3 ms", "1.2 s", "250ns", "2 min", "3h", "4d" -> seconds. Throws InputError.
double parse_duration(std::string_view text);

// "2.5", "$2.50", "2.5 USD/h" -> 2.5. Throws InputError.
double parse_price(std::string_view text);

std::string format_bytes(std::int64_t bytes);    // "68.1 GiB"
std::string format_duration(double seconds);     // "19.84 s", "71.0 ms", "3.2 us"
std::string format_integer(std::int64_t value);  // "1,024"

// The text as JSON writes it, with its quotes.
std::string json_string(std::string_view text);

// What every table and help text fits into.
inline constexpr std::size_t kLineWidth = 80;

// Columns that UTF-8 text takes on a terminal: East Asian wide characters and emoji take two, combining marks none.
std::size_t display_width(std::string_view text);

// Padded with spaces to `columns`; longer text is left as it is.
std::string pad_right(std::string_view text, std::size_t columns);

// Lines of at most `columns`, broken at spaces, joined into one string: the first after `first`, the others indented by
// as many columns as `first` has. Newlines in the text are kept.
std::string wrap_after(std::string_view first, std::string_view text, std::size_t columns = kLineWidth);

}  // namespace nest
