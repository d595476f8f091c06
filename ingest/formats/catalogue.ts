/** The foreign formats, on one page, in the order in which they are tried. */
import { TroupeError } from '../../errors.ts';
import { adp } from './adp.ts';
import { agentLightning } from './agent-lightning.ts';
import { agentboard } from './agentboard.ts';
import { agentscope } from './agentscope.ts';
import { agentverse } from './agentverse.ts';
import { are } from './are.ts';
import { atif } from './atif.ts';
import { autogen } from './autogen.ts';
import { claudeCode } from './claude-code.ts';
import { cline } from './cline.ts';
import { codex } from './codex.ts';
import { crewai } from './crewai.ts';
import type { Format, Head } from './format.ts';
import { geminiCli } from './gemini-cli.ts';
import { inspect } from './inspect.ts';
import { langfuse } from './langfuse.ts';
import { langsmith } from './langsmith.ts';
import { m500 } from './m500.ts';
import { masGpt } from './mas-gpt.ts';
import { maslab } from './maslab.ts';
import { mast } from './mast.ts';
import { miniSweAgent } from './mini-swe-agent.ts';
import { multiagentbench } from './multiagentbench.ts';
import { openaiAgents } from './openai-agents.ts';
import { openaiChat } from './openai-chat.ts';
import { opencode } from './opencode.ts';
import { openhands } from './openhands.ts';
import { openinference } from './openinference.ts';
import { otelGenai } from './otel-genai.ts';
import { pi } from './pi.ts';
import { primeRl } from './prime-rl.ts';
import { redel } from './redel.ts';
import { rllm } from './rllm.ts';
import { sessionTraces } from './session-traces.ts';
import { sharegpt } from './sharegpt.ts';
import { sweAgent } from './swe-agent.ts';
import { sweBench } from './swe-bench.ts';
import { sweDev } from './swe-dev.ts';
import { tauBench } from './tau-bench.ts';
import { tau2Bench } from './tau2-bench.ts';
import { traceloop } from './traceloop.ts';
import { troupeEvents } from './troupe-events.ts';
import { vercelAi } from './vercel-ai.ts';
import { verl } from './verl.ts';
import { weave } from './weave.ts';
import { whoWhen } from './who-when.ts';
import { xlam } from './xlam.ts';

export const FORMATS: readonly Format[] = [
  troupeEvents,
  tauBench,
  tau2Bench,
  whoWhen,
  miniSweAgent,
  cline,
  openaiChat,
  atif,
  sharegpt,
  m500,
  masGpt,
  maslab,
  agentverse,
  autogen,
  agentscope,
  claudeCode,
  codex,
  pi,
  geminiCli,
  opencode,
  sessionTraces,
  crewai,
  inspect,
  multiagentbench,
  mast,
  redel,
  sweAgent,
  sweBench,
  sweDev,
  xlam,
  verl,
  primeRl,
  rllm,
  adp,
  are,
  agentboard,
  openhands,
  otelGenai,
  openinference,
  traceloop,
  vercelAi,
  openaiAgents,
  langfuse,
  langsmith,
  weave,
  agentLightning,
];

/**
 * The format of a file, by content: the one that knows most of its first records, and does not take them together for something
 * else. Null where no format knows any.
 */
export function recognise({ records, shape }: Head): Format | null {
  const known = FORMATS.filter((format) => format.recognises({ records, shape })).map((format) => ({
    format,
    count: records.filter((record) => format.recognises({ records: [record], shape })).length,
  }));
  const most = Math.max(...known.map(({ count }) => count));
  return known.find(({ count }) => count === most)?.format ?? null;
}

/** A format by name. Throws `usage` for a name that is not in the catalogue. */
export function formatNamed(name: string): Format {
  const found = FORMATS.find((format) => format.name === name);
  if (found) return found;
  const names = FORMATS.map((format) => format.name).join(', ');
  throw new TroupeError('usage', `There is no format ${JSON.stringify(name)}; there are ${names}.`, {
    expected: names,
    got: name,
  });
}
