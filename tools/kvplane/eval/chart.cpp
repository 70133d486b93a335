#include "eval/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "eval/table.h"

namespace kvplane::tool {

namespace {

constexpr double panel_width = 470, panel_height = 330;
constexpr double left = 62, right = 14, top = 34, bottom = 46;  // margins of a panel's plot
constexpr int columns = 2;

// Okabe and Ito's colours, which people with any colour vision tell apart.
constexpr std::array colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d31"};

std::string escaped(const std::string& text) {
    std::string made;
    for (char c : text) {
        switch (c) {
            case '&': made += "&amp;"; break;
            case '<': made += "&lt;"; break;
            case '>': made += "&gt;"; break;
            case '"': made += "&quot;"; break;
            default: made += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
    }
    return made;
}

// Maps values of an axis to pixels.
class Axis {
public:
    Axis(double least, double most, bool log, double from, double to) : log_(log), from_(from), to_(to) {
        const double a = scaled(least), b = scaled(most);
        const double margin = b > a ? (b - a) * 0.06 : std::max(std::abs(a) * 0.05, 0.05);
        low_ = a - margin;
        high_ = b + margin;
    }

    double pixel(double value) const { return from_ + (scaled(value) - low_) / (high_ - low_) * (to_ - from_); }

    std::vector<double> ticks() const {
        std::vector<double> found;
        const double least = log_ ? std::exp(low_) : low_, most = log_ ? std::exp(high_) : high_;
        if (log_) {
            const bool narrow = most / least < 12;
            for (int power = static_cast<int>(std::floor(std::log10(least))); std::pow(10, power) <= most; ++power) {
                for (double digit : {1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0}) {
                    const bool coarse = digit == 1.0 || digit == 2.0 || digit == 5.0;
                    const double value = digit * std::pow(10, power);
                    if (value >= least && value <= most && (narrow || coarse)) found.push_back(value);
                }
            }
            return found;
        }
        const double rough = (most - least) / 6, power = std::pow(10, std::floor(std::log10(rough)));
        const double step = rough / power > 5 ? 10 * power : rough / power > 2 ? 5 * power : 2 * power;
        for (double value = std::ceil(least / step) * step; value <= most; value += step) found.push_back(value);
        return found;
    }

private:
    double scaled(double value) const { return log_ ? std::log(value) : value; }

    bool log_;
    double from_, to_, low_, high_;
};

std::string number(double value) {
    const double size = std::abs(value);
    std::string text = fixed(value, size >= 100 || size == 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
    if (text.find('.') != std::string::npos) {
        text.erase(text.find_last_not_of('0') + 1);
        if (text.back() == '.') text.pop_back();
    }
    return text;
}

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
    return "<line x1=\"" + fixed(x1, 1) + "\" y1=\"" + fixed(y1, 1) + "\" x2=\"" + fixed(x2, 1) + "\" y2=\"" +
           fixed(y2, 1) + "\" " + style + "/>\n";
}

std::string words(double x, double y, const std::string& text, const std::string& style) {
    return "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" " + style + ">" + escaped(text) + "</text>\n";
}

std::string marker(double x, double y, size_t series, const std::string& title) {
    const std::string paint = "fill=\"" + std::string(colours[series % colours.size()]) + "\"";
    const std::string inside = title.empty() ? "" : "<title>" + escaped(title) + "</title>";
    switch (series % 3) {
        case 0:
            return "<circle cx=\"" + fixed(x, 1) + "\" cy=\"" + fixed(y, 1) + "\" r=\"4\" " + paint + ">" + inside +
                   "</circle>\n";
        case 1:
            return "<rect x=\"" + fixed(x - 3.5, 1) + "\" y=\"" + fixed(y - 3.5, 1) + "\" width=\"7\" height=\"7\" " +
                   paint + ">" + inside + "</rect>\n";
        default:
            return "<path d=\"M" + fixed(x, 1) + " " + fixed(y - 4.5, 1) + "l4.5 8h-9z\" " + paint + ">" + inside +
                   "</path>\n";
    }
}

std::string panel_svg(const ChartPanel& panel, const std::vector<std::string>& series, double x0, double y0) {
    std::vector<ChartPoint> points;
    for (const ChartPoint& point : panel.points) {
        const bool drawable = std::isfinite(point.x) && std::isfinite(point.y) && (!panel.log_x || point.x > 0);
        if (drawable) points.push_back(point);
    }
    const double x1 = x0 + left, x2 = x0 + panel_width - right, y1 = y0 + panel_height - bottom, y2 = y0 + top;
    std::string svg = words((x1 + x2) / 2, y0 + 20, panel.title, "text-anchor=\"middle\" font-weight=\"bold\"");
    svg += words((x1 + x2) / 2, y1 + 36, panel.x_label, "text-anchor=\"middle\"");
    svg += words(
        x0 + 14, (y1 + y2) / 2, panel.y_label,
        "text-anchor=\"middle\" transform=\"rotate(-90 " + fixed(x0 + 14, 1) + " " + fixed((y1 + y2) / 2, 1) + ")\"");
    svg += "<rect x=\"" + fixed(x1, 1) + "\" y=\"" + fixed(y2, 1) + "\" width=\"" + fixed(x2 - x1, 1) + "\" height=\"" +
           fixed(y1 - y2, 1) + "\" fill=\"none\" stroke=\"#888\"/>\n";
    if (points.empty()) return svg + words((x1 + x2) / 2, (y1 + y2) / 2, "nothing to show", "text-anchor=\"middle\"");

    const auto by_x = [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; };
    const auto by_y = [](const ChartPoint& a, const ChartPoint& b) { return a.y < b.y; };
    const auto [least_x, most_x] = std::minmax_element(points.begin(), points.end(), by_x);
    const auto [least_y, most_y] = std::minmax_element(points.begin(), points.end(), by_y);
    const bool log_y = least_y->y > 0 && most_y->y > 2.5 * least_y->y;
    const Axis across(least_x->x, most_x->x, panel.log_x, x1, x2), up(least_y->y, most_y->y, log_y, y1, y2);
    for (double tick : across.ticks()) {
        const double x = across.pixel(tick);
        svg += line(x, y1, x, y2, "stroke=\"#ddd\"") + words(x, y1 + 16, number(tick), "text-anchor=\"middle\"");
    }
    for (double tick : up.ticks()) {
        const double y = up.pixel(tick);
        svg += line(x1, y, x2, y, "stroke=\"#ddd\"") + words(x1 - 6, y + 4, number(tick), "text-anchor=\"end\"");
    }
    for (size_t i = 0; i < series.size(); ++i) {
        std::string path;
        for (const ChartPoint& point : points) {
            if (point.series != series[i]) continue;
            path += (path.empty() ? "" : " ") + fixed(across.pixel(point.x), 1) + "," + fixed(up.pixel(point.y), 1);
        }
        svg += "<polyline points=\"" + path + "\" fill=\"none\" stroke-width=\"1.5\" stroke=\"" +
               colours[i % colours.size()] + "\"/>\n";
    }
    for (size_t i = 0; i < series.size(); ++i) {
        for (const ChartPoint& point : points) {
            if (point.series != series[i]) continue;
            const std::string title = point.label + ": " + number(point.x) + ", " + fixed(point.y, 3);
            svg += marker(across.pixel(point.x), up.pixel(point.y), i, title);
        }
    }
    return svg;
}

bool ends_with(const std::string& text, const char* end) {
    return text.ends_with(end);
}

}  // namespace

std::string chart_svg(const std::string& title, const std::vector<ChartPanel>& panels) {
    std::vector<std::string> series;
    for (const ChartPanel& panel : panels) {
        for (const ChartPoint& point : panel.points) {
            if (std::find(series.begin(), series.end(), point.series) == series.end()) series.push_back(point.series);
        }
    }
    const auto n = static_cast<double>(panels.size());
    const double wide = panels.size() > 1 ? columns : 1, rows = std::ceil(n / columns);
    const double width = wide * panel_width, legend = 40 + rows * panel_height;
    const double per_row = std::floor(width / 150);
    const double height = legend + 22 * std::ceil(static_cast<double>(series.size()) / per_row) + 12;
    std::string svg =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + fixed(width, 0) + "\" height=\"" + fixed(height, 0) +
        "\" viewBox=\"0 0 " + fixed(width, 0) + " " + fixed(height, 0) +
        "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    svg += words(width / 2, 22, title, "text-anchor=\"middle\" font-size=\"15\"");
    for (size_t i = 0; i < panels.size(); ++i) {
        svg += panel_svg(panels[i], series, static_cast<double>(i % columns) * panel_width,
                         34 + static_cast<double>(i / columns) * panel_height);
    }
    for (size_t i = 0; i < series.size(); ++i) {
        const auto place = static_cast<double>(i);
        const double x = 20 + std::fmod(place, per_row) * 150, y = legend + 22 * std::floor(place / per_row);
        svg += marker(x, y, i, "") + words(x + 12, y + 4, series[i], "");
    }
    return svg + "</svg>\n";
}

void check_chart_name(const std::string& file) {
    if (file.empty() || ends_with(file, ".svg") || ends_with(file, ".html")) return;
    throw Error(ErrorKind::usage, "--chart " + file + ": a chart is an .svg or an .html file; name it so");
}

void write_chart(const std::string& file, const std::string& title, const std::vector<ChartPanel>& panels,
                 const std::string& notes) {
    if (file.empty()) return;
    std::string text = chart_svg(title, panels);
    if (ends_with(file, ".html")) {
        text = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + escaped(title) +
               "</title></head>\n<body>\n" + text + "<pre>" + escaped(notes) + "</pre>\n</body></html>\n";
    }
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) throw Error(ErrorKind::runtime, "--chart " + file + ": cannot be written; is its folder there?");
}

}  // namespace kvplane::tool
