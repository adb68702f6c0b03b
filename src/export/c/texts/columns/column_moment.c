/* A moment of the Gregorian calendar: weekday 0 Monday, month 1 ... 12, day of the year from 0,
 * days of the year, second of the day. */
typedef struct column_moment {
    int32_t weekday, year, month, day, length;
    double second;
} column_moment;

static int32_t column_days_before(int32_t year) /* since 0001-01-01, a Monday */
{
    const int32_t y = year - 1;
    return 365 * y + y / 4 - y / 100 + y / 400;
}

/* Of seconds since 1970, in the years 0001 to 9999. */
static column_moment column_moment_of(double seconds)
{
    static const int16_t before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };
    column_moment m;
    int32_t days = (int32_t)(seconds / 86400.0), leap;
    if ((double)days * 86400.0 > seconds) days--;
    m.second = seconds - (double)days * 86400.0;
    days += 719162;
    m.weekday = days % 7;
    m.year = days * 400 / 146097 + 1;
    if (column_days_before(m.year) > days) m.year--;
    if (column_days_before(m.year + 1) <= days) m.year++;
    leap = column_days_before(m.year + 1) - column_days_before(m.year) - 365;
    m.day = days - column_days_before(m.year);
    m.length = 365 + leap;
    m.month = 1;
    while (m.day >= before[m.month] + (m.month > 1 ? leap : 0)) m.month++;
    return m;
}
