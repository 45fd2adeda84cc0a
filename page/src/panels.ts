// The panels, in the order of the page.

import type { Panel } from "./panel";
import { ClusterPanel } from "./panels/cluster";
import { ExportPanel } from "./panels/exports";
import { MapPanel } from "./panels/map";
import { MemoryPanel } from "./panels/memory";
import { MinePanel } from "./panels/mine";
import { ParetoPanel, SensitivityPanel } from "./panels/pareto";
import { PipelinePanel } from "./panels/pipeline";
import { TimePanel } from "./panels/time";

export function allPanels(): Panel[] {
  return [new TimePanel(), new MemoryPanel(), new PipelinePanel(), new ClusterPanel(), new MapPanel(), new MinePanel(),
    new ParetoPanel(), new SensitivityPanel(), new ExportPanel()];
}
