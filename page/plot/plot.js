// What the pages of reports and leaderboards draw with; src/understudy/experiments/static/charts.js calls it.
export { areaY, axisX, dot, gridY, line, plot, pointer, ruleX, ruleY, text, tip } from "@observablehq/plot";
