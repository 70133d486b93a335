// Quality against size as a picture: panels of points, those of a series joined, one legend. SVG, by itself or in a page.
#pragma once

#include <string>
#include <vector>

namespace kvplane::tool {

struct ChartPoint {
    std::string series;
    std::string label;  // shown when pointed at
    double x = 0, y = 0;
};

struct ChartPanel {
    std::string title;
    std::string x_label, y_label;
    bool log_x = true;
    std::vector<ChartPoint> points;  // a series' points in the order in which they are joined
};

// Throws Error(usage) unless the name ends with .svg or .html; ask before hours of work.
void check_chart_name(const std::string& file);
// `notes` stand below the chart of a page, as they are. Throws Error(runtime) when it cannot be written.
void write_chart(const std::string& file, const std::string& title, const std::vector<ChartPanel>& panels,
                 const std::string& notes);

std::string chart_svg(const std::string& title, const std::vector<ChartPanel>& panels);

}  // namespace kvplane::tool
