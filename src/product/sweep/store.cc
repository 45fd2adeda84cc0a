#include "sweep/store.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

#ifdef NEST_SQLITE

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "sweep/study.h"

namespace nest::sweep {
namespace {

constexpr int kApplication = 0x6e657374;       // "nest"
constexpr int kLayout = 1;                     // of the tables
constexpr int kPatienceMs = 5'000;             // with somebody who reads or writes at this moment, and
constexpr int kLongPatienceMs = 60'000;        // when there are results to be stored
constexpr off_t kWriterByte = off_t{1} << 40;  // SQLite's own locks are at 2^30

struct ResultColumn {
  const char* name;
  const char* type;
};
constexpr std::array kResultColumns = {
    ResultColumn{"outcome", "TEXT NOT NULL"},
    ResultColumn{"reason", "TEXT"},
    ResultColumn{"strategy", "TEXT"},
    ResultColumn{"step_s", "REAL"},
    ResultColumn{"low_s", "REAL"},
    ResultColumn{"high_s", "REAL"},
    ResultColumn{"lower_bound_s", "REAL"},
    ResultColumn{"tokens_per_s", "REAL"},
    ResultColumn{"tokens_per_s_per_device", "REAL"},
    ResultColumn{"mfu", "REAL"},
    ResultColumn{"devices_used", "INTEGER"},
    ResultColumn{"memory_bytes", "INTEGER"},
    ResultColumn{"device_hours_per_gtoken", "REAL"},
    ResultColumn{"cost_per_gtoken", "REAL"},
    ResultColumn{"days", "REAL"},
    ResultColumn{"device_hours", "REAL"},
    ResultColumn{"cost", "REAL"},
};

std::string in_quotes(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

// What an SQLite error means for whoever named the file.
[[noreturn]] void fail_sqlite(const std::string& path, int code, const std::string& what) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      throw InputError(fmt::format(
          "{}: cannot be written: the disk is full; what was stored is kept, and a next run goes on from there", path));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw InputError(fmt::format("{}: is locked by another program; what was stored is kept", path));
    case SQLITE_NOTADB: throw InputError(fmt::format("{}: is no SQLite database", path));
    case SQLITE_CORRUPT: throw InputError(fmt::format("{}: is damaged: {}", path, what));
    case SQLITE_READONLY: throw InputError(fmt::format("{}: may not be written: {}", path, what));
    case SQLITE_CANTOPEN: throw InputError(fmt::format("{}: cannot be opened: {}", path, what));
    case SQLITE_NOMEM: throw std::bad_alloc();
    case SQLITE_IOERR:
      throw InputError(fmt::format("{}: cannot be read or written ({}); what was stored is kept", path, what));
    default: throw InputError(fmt::format("{}: {}", path, what));
  }
}

}  // namespace

// A lock of this process alone on a byte that nothing is ever written to.
class WriterLock {
 public:
  explicit WriterLock(const std::string& path) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      throw InputError(fmt::format("{}: cannot be opened for writing: {}", path, std::strerror(errno)));
    }
    struct flock wanted {};
    wanted.l_type = F_WRLCK;
    wanted.l_whence = SEEK_SET;
    wanted.l_start = kWriterByte;
    wanted.l_len = 1;
    if (::fcntl(descriptor_, F_OFD_SETLK, &wanted) == 0) return;
    const int why = errno;
    if (why != EAGAIN && why != EACCES) return;  // the file system knows no such locks: SQLite's own remain
    ::close(descriptor_);
    throw InputError(
        fmt::format("{}: another nest sweep is writing it; shards that run at once need a database each", path));
  }
  ~WriterLock() { ::close(descriptor_); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  int descriptor_ = -1;
};

// The lock is taken first and left last: closing any descriptor of a file drops the locks that SQLite has on it.
struct Store::Connection {
  std::string path;
  std::unique_ptr<WriterLock> lock;
  sqlite3* handle = nullptr;

  Connection(std::string file, Access access) : path(std::move(file)) {
    struct stat about {};
    const bool exists = ::stat(path.c_str(), &about) == 0;
    if (exists && !S_ISREG(about.st_mode)) throw InputError(fmt::format("{}: is no file", path));
    if (!exists && access == Access::read) throw InputError(fmt::format("{}: there is no such file", path));
    if (access == Access::write) lock = std::make_unique<WriterLock>(path);
    const int flags = access == Access::write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READWRITE;
    int code = sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
    if (code != SQLITE_OK && access == Access::read) {
      sqlite3_close(handle);
      code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr);
    }
    try {
      if (code != SQLITE_OK) fail(code);
      sqlite3_busy_timeout(handle, kPatienceMs);
      sqlite3_extended_result_codes(handle, 1);
      open_layout(access);
    } catch (...) {
      close();
      throw;
    }
  }
  ~Connection() { close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void close() {
    sqlite3_close(handle);
    handle = nullptr;
  }

  [[noreturn]] void fail(int code) const {
    fail_sqlite(path, code, handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code));
  }

  void execute(const std::string& sql) const {
    const int code = sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) fail(code);
  }

  std::int64_t number(const std::string& sql) const;

  void open_layout(Access access) const {
    const std::int64_t application = number("PRAGMA application_id");
    const std::int64_t tables = number("SELECT count(*) FROM sqlite_master");
    if (application == kApplication) {
      const std::int64_t layout = number("PRAGMA user_version");
      if (layout != kLayout) {
        throw InputError(
            fmt::format("{}: was written by another nest: its layout is {}, this one reads {}", path, layout, kLayout));
      }
      execute("PRAGMA synchronous=FULL");
      return;
    }
    if (tables != 0 || access == Access::read) {
      throw InputError(fmt::format("{}: is a database, but not one of nest sweep; nothing was changed", path));
    }
    execute(
        fmt::format("BEGIN IMMEDIATE; PRAGMA application_id={}; PRAGMA user_version={};"
                    "CREATE TABLE nest_studies(name TEXT PRIMARY KEY, nest TEXT NOT NULL, definition TEXT NOT NULL,"
                    " document TEXT NOT NULL, points INTEGER NOT NULL);"
                    "CREATE TABLE nest_times(study TEXT NOT NULL, point INTEGER NOT NULL, wall_s REAL NOT NULL,"
                    " PRIMARY KEY(study, point)) WITHOUT ROWID; COMMIT",
                    kApplication, kLayout));
    execute("PRAGMA synchronous=FULL");
  }
};

namespace {

class Statement {
 public:
  template <class Connection>
  Statement(const Connection& connection, const std::string& sql) : path_(connection.path), handle_(connection.handle) {
    check(sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Parameters are numbered from 1 in the order in which they are bound.
  void bind(std::int64_t value) { check(sqlite3_bind_int64(statement_, ++bound_, value)); }
  void bind(double value) { check(sqlite3_bind_double(statement_, ++bound_, value)); }
  void bind(std::string_view text) {
    check(sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  }
  void bind_null() { check(sqlite3_bind_null(statement_, ++bound_)); }

  // Whether there is a row.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) check(code);
    return false;
  }
  void reset() {
    sqlite3_reset(statement_);
    bound_ = 0;
  }

  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  std::optional<double> maybe_real(int column) const {
    return is_null(column) ? std::nullopt : std::optional(real(column));
  }
  std::string text(int column) const {
    const auto* bytes = sqlite3_column_text(statement_, column);
    if (bytes == nullptr) return {};
    return std::string(reinterpret_cast<const char*>(bytes),
                       static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  void check(int code) const {
    if (code != SQLITE_OK) fail_sqlite(path_, code, sqlite3_errmsg(handle_));
  }

  const std::string& path_;
  sqlite3* handle_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

// Takes back what is not committed.
template <class Connection>
class Transaction {
 public:
  explicit Transaction(const Connection& connection) : connection_(connection) {
    connection_.execute("BEGIN IMMEDIATE");
  }
  ~Transaction() {
    if (open_ && sqlite3_get_autocommit(connection_.handle) == 0) {
      sqlite3_exec(connection_.handle, "ROLLBACK", nullptr, nullptr, nullptr);
    }
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() {
    connection_.execute("COMMIT");
    open_ = false;
  }

 private:
  const Connection& connection_;
  bool open_ = true;
};

void bind_value(Statement& statement, const SweepValue& value) {
  if (!value.is_plain || !value.number) return statement.bind(value.text);
  const auto whole = static_cast<std::int64_t>(*value.number);
  if (static_cast<double>(whole) == *value.number && value.text.find_first_of(".eE") == std::string::npos) {
    return statement.bind(whole);
  }
  statement.bind(*value.number);
}

SweepOutcome outcome_of(const std::string& word) {
  for (const SweepOutcome outcome : {SweepOutcome::plan, SweepOutcome::limit, SweepOutcome::no_plan}) {
    if (word == to_string(outcome)) return outcome;
  }
  return SweepOutcome::refused;
}

std::string result_columns() {
  std::string names;
  for (const ResultColumn& column : kResultColumns) names += fmt::format(", {}", column.name);
  return names;
}

}  // namespace

std::int64_t Store::Connection::number(const std::string& sql) const {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

Store::Store(std::string path, Access access) : connection_(std::make_unique<Connection>(std::move(path), access)) {}
Store::~Store() = default;

std::vector<StoredStudy> Store::studies() {
  Statement select(*connection_, "SELECT name, nest, definition, document, points FROM nest_studies ORDER BY name");
  std::vector<StoredStudy> found;
  while (select.step()) {
    found.push_back({select.text(0), select.text(1), select.text(2), select.text(3), select.integer(4)});
    // Names go into statements.
    if (!is_study_name(found.back().name)) fail_sqlite(connection_->path, SQLITE_CORRUPT, "a study has no proper name");
  }
  return found;
}

void Store::require_study(const Study& study) {
  std::vector<std::string> names;
  for (const StoredStudy& stored : studies()) {
    names.push_back(stored.name);
    if (stored.name != study.name) continue;
    const std::string why = difference(stored.definition, study.definition);
    if (why.empty()) return;
    throw InputError(
        fmt::format("{}: holds another study of the name {}: {}; take another database, or another name (`study: …`)",
                    connection_->path, study.name, why));
  }
  throw InputError(fmt::format("{}: does not hold the study {}{}", connection_->path, study.name,
                               names.empty() ? "" : "; it holds " + join_words(names)));
}

void Store::open_study(const Study& study, const std::string& version) {
  for (const StoredStudy& stored : studies()) {
    if (stored.name == study.name) return require_study(study);
    if (to_lower(stored.name) == to_lower(study.name)) {
      throw InputError(fmt::format("{}: holds a study {}, which SQLite cannot tell from {}", connection_->path,
                                   stored.name, study.name));
    }
  }
  std::string sql = fmt::format("CREATE TABLE {}(point INTEGER PRIMARY KEY", in_quotes(study.name));
  for (const SweepAxis& axis : study.axes) sql += ", " + in_quotes(axis.name);
  for (const ResultColumn& column : kResultColumns) sql += fmt::format(", {} {}", column.name, column.type);
  Transaction<Connection> transaction(*connection_);
  connection_->execute(sql + ", plan TEXT)");
  Statement insert(*connection_, "INSERT INTO nest_studies VALUES(?, ?, ?, ?, ?)");
  insert.bind(std::string_view(study.name));
  insert.bind(std::string_view(version));
  insert.bind(std::string_view(study.definition));
  insert.bind(std::string_view(study.text));
  insert.bind(static_cast<std::int64_t>(study.points.size()));
  insert.step();
  transaction.commit();
}

std::vector<std::int64_t> Store::point_numbers(const std::string& study) {
  Statement select(*connection_, fmt::format("SELECT point FROM {} ORDER BY point", in_quotes(study)));
  std::vector<std::int64_t> numbers;
  while (select.step()) numbers.push_back(select.integer(0));
  return numbers;
}

std::vector<SweepResult> Store::results(const std::string& study) {
  Statement select(*connection_, fmt::format("SELECT point{}, plan IS NOT NULL FROM {} ORDER BY point",
                                             result_columns(), in_quotes(study)));
  std::vector<SweepResult> found;
  while (select.step()) {
    SweepResult r;
    int column = 0;
    r.point = select.integer(column++);
    r.outcome = outcome_of(select.text(column++));
    r.reason = select.text(column++);
    r.strategy = select.text(column++);
    for (double* real :
         {&r.step_s, &r.low_s, &r.high_s, &r.lower_bound_s, &r.tokens_per_s, &r.tokens_per_s_per_device, &r.mfu}) {
      *real = select.real(column++);
    }
    r.devices_used = select.integer(column++);
    r.memory_bytes = select.integer(column++);
    r.device_hours_per_gtoken = select.real(column++);
    for (std::optional<double>* real : {&r.cost_per_gtoken, &r.days, &r.device_hours, &r.cost}) {
      *real = select.maybe_real(column++);
    }
    r.has_plan = select.integer(column) != 0;
    found.push_back(std::move(r));
  }
  return found;
}

std::string Store::plan(const std::string& study, std::int64_t point) {
  Statement select(*connection_, fmt::format("SELECT plan FROM {} WHERE point = ?", in_quotes(study)));
  select.bind(point);
  return select.step() ? select.text(0) : std::string();
}

void Store::for_each_plan(const std::string& study, const std::function<void(std::int64_t, std::string_view)>& each) {
  Statement select(*connection_, fmt::format("SELECT point, plan FROM {} ORDER BY point", in_quotes(study)));
  while (select.step()) each(select.integer(0), select.text(1));
}

void Store::add(const Study& study, const std::vector<StoredPoint>& points) {
  std::string places = "?";
  for (std::size_t k = 0; k < study.axes.size() + kResultColumns.size() + 1; ++k) places += ", ?";
  sqlite3_busy_timeout(connection_->handle, kLongPatienceMs);
  Transaction<Connection> transaction(*connection_);
  Statement insert(*connection_, fmt::format("INSERT OR IGNORE INTO {} VALUES({})", in_quotes(study.name), places));
  Statement time(*connection_, "INSERT OR IGNORE INTO nest_times VALUES(?, ?, ?)");
  for (const StoredPoint& point : points) {
    const SweepResult& r = point.result;
    insert.reset();
    insert.bind(r.point);
    const std::vector<std::size_t> choice = study.choice(r.point);
    for (std::size_t a = 0; a < choice.size(); ++a) bind_value(insert, study.axes[a].values[choice[a]]);
    const auto text_or_null = [&](const std::string& text) {
      text.empty() ? insert.bind_null() : insert.bind(std::string_view(text));
    };
    const auto real_or_null = [&](const std::optional<double>& real) {
      real&& r.has_plan ? insert.bind(*real) : insert.bind_null();
    };
    insert.bind(to_string(r.outcome));
    text_or_null(r.reason);
    text_or_null(r.strategy);
    for (const double real :
         {r.step_s, r.low_s, r.high_s, r.lower_bound_s, r.tokens_per_s, r.tokens_per_s_per_device, r.mfu}) {
      real_or_null(real);
    }
    for (const std::int64_t whole : {r.devices_used, r.memory_bytes}) {
      r.has_plan ? insert.bind(whole) : insert.bind_null();
    }
    for (const std::optional<double>& real :
         {std::optional(r.device_hours_per_gtoken), r.cost_per_gtoken, r.days, r.device_hours, r.cost}) {
      real_or_null(real);
    }
    text_or_null(point.plan);
    insert.step();
    time.reset();
    time.bind(std::string_view(study.name));
    time.bind(r.point);
    time.bind(point.wall_s);
    time.step();
  }
  transaction.commit();
}

std::int64_t Store::merge(const std::string& other, const std::string& study) {
  const std::string table = in_quotes(study);
  const std::string uri = std::filesystem::absolute(other).string();
  {
    Statement attach(*connection_, "ATTACH ? AS other");
    attach.bind(std::string_view(uri));
    attach.step();
  }
  std::int64_t twice = 0;
  try {
    Transaction<Connection> transaction(*connection_);
    const bool here =
        connection_->number(fmt::format("SELECT count(*) FROM main.nest_studies WHERE name = '{}'", study)) > 0;
    if (!here) {
      Statement shape(*connection_, "SELECT sql FROM other.sqlite_master WHERE type = 'table' AND name = ?");
      shape.bind(std::string_view(study));
      const std::string sql = shape.step() ? shape.text(0) : std::string();
      if (sql.empty()) throw InputError(fmt::format("{}: the table of the study {} is missing", other, study));
      connection_->execute(sql);
      connection_->execute(
          fmt::format("INSERT INTO main.nest_studies SELECT * FROM other.nest_studies WHERE name = '{}'", study));
    }
    twice = connection_->number(fmt::format("SELECT count(*) FROM main.{0} JOIN other.{0} USING(point)", table));
    if (twice > 0) {
      Statement differ(*connection_,
                       fmt::format("SELECT point FROM (SELECT * FROM main.{0} WHERE point IN (SELECT point "
                                   "FROM other.{0}) EXCEPT SELECT * FROM other.{0}) LIMIT 1",
                                   table));
      if (differ.step()) {
        throw InputError(fmt::format("{}: point {} of the study {} is another than in a database before it", other,
                                     differ.integer(0), study));
      }
    }
    connection_->execute(fmt::format("INSERT OR IGNORE INTO main.{0} SELECT * FROM other.{0} ORDER BY point", table));
    connection_->execute(
        fmt::format("INSERT OR IGNORE INTO main.nest_times SELECT * FROM other.nest_times WHERE study = '{}'", study));
    transaction.commit();
  } catch (...) {
    sqlite3_exec(connection_->handle, "DETACH other", nullptr, nullptr, nullptr);
    throw;
  }
  connection_->execute("DETACH other");
  return twice;
}

}  // namespace nest::sweep

#else

namespace nest::sweep {

struct Store::Connection {};

Store::Store(std::string path, Access /*access*/) {
  throw InputError(
      fmt::format("{}: this nest was built without SQLite (Debian: libsqlite3-dev), which keeps the results of "
                  "sweeps",
                  path));
}
Store::~Store() = default;
void Store::open_study(const Study& /*study*/, const std::string& /*version*/) {}
void Store::require_study(const Study& /*study*/) {}
std::vector<StoredStudy> Store::studies() { return {}; }
std::vector<std::int64_t> Store::point_numbers(const std::string& /*study*/) { return {}; }
std::vector<SweepResult> Store::results(const std::string& /*study*/) { return {}; }
std::string Store::plan(const std::string& /*study*/, std::int64_t /*point*/) { return {}; }
void Store::for_each_plan(const std::string& /*study*/,
                          const std::function<void(std::int64_t, std::string_view)>& /*each*/) {}
void Store::add(const Study& /*study*/, const std::vector<StoredPoint>& /*points*/) {}
std::int64_t Store::merge(const std::string& /*other*/, const std::string& /*study*/) { return 0; }

}  // namespace nest::sweep

#endif
