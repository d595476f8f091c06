/** The foreign formats, on one page, in the order in which they are tried. */
import { TroupeError } from '../../errors.ts';
import { agentboard } from './benchmarks/agentboard.ts';
import { are } from './benchmarks/are.ts';
import { inspect } from './benchmarks/inspect.ts';
import { m500 } from './benchmarks/m500.ts';
import { masGpt } from './benchmarks/mas-gpt.ts';
import { mast } from './benchmarks/mast.ts';
import { multiagentbench } from './benchmarks/multiagentbench.ts';
import { sweBench } from './benchmarks/swe-bench.ts';
import { sweDev } from './benchmarks/swe-dev.ts';
import { tauBench } from './benchmarks/tau-bench.ts';
import { tau2Bench } from './benchmarks/tau2-bench.ts';
import { whoWhen } from './benchmarks/who-when.ts';
import { agentscope } from './frameworks/agentscope.ts';
import { agentverse } from './frameworks/agentverse.ts';
import { autogen } from './frameworks/autogen.ts';
import { crewai } from './frameworks/crewai.ts';
import { googleAdk } from './frameworks/google-adk.ts';
import { langchainMessages } from './frameworks/langchain-messages.ts';
import { maslab } from './frameworks/maslab.ts';
import { openaiAgents } from './frameworks/openai-agents.ts';
import { pydanticAi } from './frameworks/pydantic-ai.ts';
import { redel } from './frameworks/redel.ts';
import { smolagents } from './frameworks/smolagents.ts';
import { vercelMessages } from './frameworks/vercel-messages.ts';
import type { Format, Head } from './kit/format.ts';
import { aider } from './sessions/aider.ts';
import { chatgpt } from './sessions/chatgpt.ts';
import { claudeAi } from './sessions/claude-ai.ts';
import { claudeCode } from './sessions/claude-code.ts';
import { claudeStream } from './sessions/claude-stream.ts';
import { cline } from './sessions/cline.ts';
import { codex } from './sessions/codex.ts';
import { codexExec } from './sessions/codex-exec.ts';
import { copilotCli } from './sessions/copilot-cli.ts';
import { geminiCli } from './sessions/gemini-cli.ts';
import { goose } from './sessions/goose.ts';
import { miniSweAgent } from './sessions/mini-swe-agent.ts';
import { opencode } from './sessions/opencode.ts';
import { openhands } from './sessions/openhands.ts';
import { pi } from './sessions/pi.ts';
import { qwenCode } from './sessions/qwen-code.ts';
import { sessionTraces } from './sessions/session-traces.ts';
import { sweAgent } from './sessions/swe-agent.ts';
import { bedrock } from './traces/bedrock.ts';
import { exportedSpans } from './traces/exported-spans.ts';
import { langfuse } from './traces/langfuse.ts';
import { langsmith } from './traces/langsmith.ts';
import { nemoRelay } from './traces/nemo-relay.ts';
import { openinference, otelGenai, traceloop, vercelAi } from './traces/otlp.ts';
import { weave } from './traces/weave.ts';
import { adp } from './training/adp.ts';
import { agentLightning } from './training/agent-lightning.ts';
import { atif } from './training/atif.ts';
import { chatMessages } from './training/chat-messages.ts';
import { modelBatches } from './training/model-batches.ts';
import { nemoGym } from './training/nemo-gym.ts';
import { openaiChat } from './training/openai-chat.ts';
import { openaiResponses } from './training/openai-responses.ts';
import { preferences } from './training/preferences.ts';
import { primeRl } from './training/prime-rl.ts';
import { rllm } from './training/rllm.ts';
import { sharegpt } from './training/sharegpt.ts';
import { sweRows } from './training/swe-rows.ts';
import { tinkerCapture } from './training/tinker-capture.ts';
import { verl } from './training/verl.ts';
import { xlam } from './training/xlam.ts';
import { troupeEvents } from './troupe-events.ts';

const formats: Format[] = [
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
  claudeStream,
  codex,
  codexExec,
  pi,
  geminiCli,
  qwenCode,
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
  chatMessages,
  openaiResponses,
  pydanticAi,
  vercelMessages,
  langchainMessages,
  nemoGym,
  preferences,
  modelBatches,
  bedrock,
  sweRows,
  googleAdk,
  smolagents,
  aider,
  exportedSpans,
  goose,
  copilotCli,
  chatgpt,
  claudeAi,
  nemoRelay,
  tinkerCapture,
];
export const FORMATS: readonly Format[] = formats;

/** Puts a user's own formats, whose names no other format has, before the others. */
export const addFormats = (own: readonly Format[]): void => void formats.unshift(...own);

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
