/**
 * Steps that Harbor's converters make of less than a model call. Until version 0.18 that of Claude Code wrote a step for each block of an
 * answer: a text, then each tool call, every one of them with the usage of the whole answer (0.1) or the first alone (since 0.6).
 */
import { asText, canonicalJson, isRecord, type JsonObject } from '../../events/json.ts';
import { isGiven } from './atif-rules.ts';

/** The steps as the model made them: one for each of its answers, without the words that a converter puts where an answer has no text. */
export function answersIn(steps: readonly JsonObject[]): readonly JsonObject[] {
  const early = steps.some((step) => isConverted(step) && isFiller(step));
  const answers: JsonObject[] = [];
  const lastOf = new Map<string, number>();
  for (const native of steps) {
    const step = withOwnError(isFiller(native) ? { ...native, message: '' } : native);
    const speaker = speakerIn(native);
    const before = answers[lastOf.get(speaker) ?? -1];
    if (early && before && isPartOf(before, step)) answers[lastOf.get(speaker)!] = joined(before, step);
    else lastOf.set(speaker, answers.push(step) - 1);
  }
  return answers;
}

const callsOf = ({ tool_calls: calls }: JsonObject): readonly JsonObject[] => (Array.isArray(calls) ? calls : []);
const resultsOf = ({ observation }: JsonObject): readonly JsonObject[] =>
  isRecord(observation) && Array.isArray(observation.results) ? observation.results : [];

/** Whether the converter of Claude Code wrote a step: it says of each whether it is that of a sub-agent. */
const isConverted = ({ extra }: JsonObject): boolean => isRecord(extra) && typeof extra.is_sidechain === 'boolean';

const speakerIn = ({ extra }: JsonObject): string =>
  isRecord(extra) && extra.is_sidechain === true ? canonicalJson(extra.agent_id ?? true) : '';

/** Placeholder text that the converters of Claude Code, Copilot and Cortex Code write where the model called a tool without text. */
function isFiller(step: JsonObject): boolean {
  const [call, ...more] = callsOf(step);
  if (!call || more.length > 0) return false;
  const placeholder = `Executed ${asText(call.function_name)}`;
  return [placeholder, `${placeholder} ${asText(call.tool_call_id)}`, `${placeholder} (no result)`].includes(
    step.message as string,
  );
}

const isPartOf = (before: JsonObject, step: JsonObject): boolean =>
  [before, step].every((one) => one.source === 'agent' && isConverted(one)) &&
  before.model_name === step.model_name &&
  (!isGiven(step.metrics) || canonicalJson(step.metrics) === canonicalJson(before.metrics ?? null));

const joined = (before: JsonObject, step: JsonObject): JsonObject => ({
  ...before,
  message: texts(before.message, step.message),
  ...(isGiven(step.reasoning_content)
    ? { reasoning_content: texts(before.reasoning_content ?? '', step.reasoning_content) }
    : {}),
  ...(callsOf(step).length > 0 ? { tool_calls: [...callsOf(before), ...callsOf(step)] } : {}),
  ...(resultsOf(step).length > 0 ? { observation: { results: [...resultsOf(before), ...resultsOf(step)] } } : {}),
});

/** Texts of one answer, the way Harbor joins them today. */
const texts = (...all: readonly unknown[]): unknown => all.filter((text) => text !== '').join('\n\n');

/** A step with one result may say beside itself that it failed. */
function withOwnError(step: JsonObject): JsonObject {
  const [result, ...more] = resultsOf(step);
  const { extra } = step;
  if (!result || more.length > 0 || !isRecord(extra) || extra.tool_result_is_error !== true) return step;
  const own = isRecord(result.extra) ? result.extra : {};
  return { ...step, observation: { results: [{ ...result, extra: { ...own, tool_result_is_error: true } }] } };
}
